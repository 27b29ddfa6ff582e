import { expect, test } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import { attentionSubgroups } from "../../../src/layers/attention/attention_backend.ts";
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

test("attentionSubgroups follows the adapter, or is refused", () => {
  expect(attentionSubgroups("auto", { subgroupSize: 8 })).toEqual({ subgroupSize: 8 });
  expect(attentionSubgroups("auto", {})).toEqual({});
  expect(attentionSubgroups("auto", { askedSubgroupSize: 32 })).toEqual({ askedSubgroupSize: 32 });
  expect(attentionSubgroups("subgroup", { subgroupSize: 8 })).toEqual({ subgroupSize: 8 });
  expect(attentionSubgroups("subgroup", { askedSubgroupSize: 32 })).toMatchObject({
    askedSubgroupSize: 32,
  });
  expect(attentionSubgroups("portable", { subgroupSize: 8, askedSubgroupSize: 32 })).toEqual({});
  expect(() => attentionSubgroups("subgroup", {})).toThrow(DeviceError);
  expect(() => attentionSubgroups("subgroup", { subgroupSize: 4 })).toThrow("8 or more");
});
