import { expect, test } from "vitest";
import { chooseFit, type Form, sizesOf } from "../../examples/browser/model/fit.ts";
import { PUBLISHED } from "../../examples/browser/model/published_models.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import { inspectCheckpoint } from "../../src/index.ts";
import { QWEN3_06B, QWEN25_7B } from "../support/checkpoints/gqa_configs.ts";

const SIZES = { weights: { published: 3e9, int8: 1.6e9, int4: 0.9e9 }, cacheBytesPerToken: 1e5 };
const TOKENS = 1000;

/** Just enough memory for weights of this size and the cache, of which 0.88 may be used. */
const room = (bytes: number) => ({
  deviceMemory: Math.ceil((bytes + TOKENS * 1e5) / 0.88),
  contextLength: TOKENS,
  wish: "auto" as const,
});

test.each<[number, Form, boolean]>([
  [3e9, "published", true],
  [3e9 - 1000, "int8", true],
  [1.6e9, "int8", true],
  [1.6e9 - 1000, "int4", true],
  [0.9e9, "int4", true],
  [0.9e9 - 1000, "int4", false],
])(
  "of a device that has room for weights of %d bytes: %s, fitting %s",
  (bytes, form, isFitting) => {
    expect(chooseFit(SIZES, room(bytes))).toMatchObject({ form, isFitting });
  },
);

test("says why", () => {
  expect(chooseFit(SIZES, room(3e9)).reason).toBe("As published: weights of 3.00 GB fit");
  expect(chooseFit(SIZES, room(2e9)).reason).toBe(
    "Quantized to int8 while loading: 1.60 GB instead of 3.00 GB, which with the cache is more than 2.10 GB of 2.39 GB",
  );
  expect(chooseFit(SIZES, room(0.5e9)).reason).toBe(
    "Too large: even in int4 it takes 1.00 GB, and there are 600 MB of 682 MB",
  );
});

test("does as the visitor wishes, where it can", () => {
  const wished = chooseFit(SIZES, { ...room(1e9), wish: "published" });
  expect(wished).toMatchObject({ form: "published", isFitting: false });
  expect(() =>
    chooseFit({ ...SIZES, weights: { published: 1 } }, { ...room(1e9), wish: "int4" }),
  ).toThrow("Cannot quantize these weights to int4");
});

/** What these models' config.json files have that counts. */
const QWEN25 = {
  ...QWEN25_7B,
  num_key_value_heads: 2,
  tie_word_embeddings: true,
  vocab_size: 151_936,
};
const CONFIGS: Readonly<Record<string, object>> = {
  "Qwen/Qwen3-0.6B": QWEN3_06B,
  "Qwen/Qwen3-1.7B": { ...QWEN3_06B, hidden_size: 2048, intermediate_size: 6144 },
  "Qwen/Qwen2.5-0.5B-Instruct": {
    ...QWEN25,
    ...{ hidden_size: 896, intermediate_size: 4864, num_hidden_layers: 24 },
    num_attention_heads: 14,
  },
  "Qwen/Qwen2.5-1.5B-Instruct": {
    ...QWEN25,
    ...{ hidden_size: 1536, intermediate_size: 8960, num_attention_heads: 12 },
  },
};

test.each(PUBLISHED)("the list has the sizes of $id", async ({ id, sizes, downloadBytes }) => {
  const text = new TextEncoder().encode(JSON.stringify(CONFIGS[id]));
  const report = await inspectCheckpoint(memorySource({ "config.json": text }));
  expect(sizesOf(report)).toEqual(sizes);
  // Two bytes a parameter, and a tied output head that some are published with.
  const least = report.parameters.total * 2;
  expect(downloadBytes).toBeGreaterThan(least);
  expect(downloadBytes).toBeLessThan(least * 1.35);
});
