import { expect, test } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import { attentionSubgroupSize } from "../../../src/layers/attention/attention_backend.ts";
import {
  type AttentionBackendOptions,
  chooseAttention,
} from "../../../src/node/options/attention_backend.ts";

const choose = (both?: string, one: Partial<AttentionBackendOptions> = {}) =>
  chooseAttention({
    ...{ attentionBackend: both },
    ...{ prefillAttentionBackend: undefined, decodeAttentionBackend: undefined },
    ...one,
  });

test("our own names mean themselves, and nothing is said", () => {
  expect(choose()).toEqual({
    prefillAttentionBackend: "auto",
    decodeAttentionBackend: "auto",
    chunkedPrefix: true,
    sentences: [],
  });
  expect(choose("portable", { decodeAttentionBackend: "subgroup" })).toMatchObject({
    prefillAttentionBackend: "portable",
    decodeAttentionBackend: "subgroup",
    sentences: [],
  });
});

test.each(["flashinfer", "flashmla", "cutlass_mla", "trtllm_mla", "triton", "aiter"])(
  "%s is auto, without chunks of prefixes",
  (name) => {
    expect(choose(name)).toEqual({
      prefillAttentionBackend: "auto",
      decodeAttentionBackend: "auto",
      chunkedPrefix: false,
      sentences: [
        `Attention backend ${name}: it is auto here`,
        `Attention backend ${name} takes cached prefixes in one piece`,
      ],
    });
    expect(choose(undefined, { decodeAttentionBackend: name }).chunkedPrefix).toBe(true);
  },
);

test("fa3 takes prefixes in chunks; torch_native is portable", () => {
  expect(choose("fa3")).toMatchObject({ prefillAttentionBackend: "auto", chunkedPrefix: true });
  expect(choose("torch_native", { prefillAttentionBackend: "fa3" })).toEqual({
    prefillAttentionBackend: "auto",
    decodeAttentionBackend: "portable",
    chunkedPrefix: true,
    sentences: [
      "Attention backend fa3: it is auto here",
      "Attention backend torch_native: it is portable here",
    ],
  });
});

test("attentionSubgroupSize follows the adapter, or is refused", () => {
  expect(attentionSubgroupSize("auto", { subgroupSize: 8 })).toBe(8);
  expect(attentionSubgroupSize("auto", {})).toBeUndefined();
  expect(attentionSubgroupSize("subgroup", { subgroupSize: 8 })).toBe(8);
  expect(attentionSubgroupSize("portable", { subgroupSize: 8 })).toBeUndefined();
  expect(() => attentionSubgroupSize("subgroup", {})).toThrow(DeviceError);
  expect(() => attentionSubgroupSize("subgroup", { subgroupSize: 4 })).toThrow("8 or more");
});
