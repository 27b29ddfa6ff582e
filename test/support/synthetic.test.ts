import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { decodeBf16 } from "../../src/dtype.ts";
import { createTokenizer } from "../../src/text/tokenizer.ts";
import { folderSource } from "./checkpoints/folder_source.ts";
import { EOS_TOKEN_ID } from "./synthetic/byte_tokenizer.ts";
import { fillOf } from "./synthetic/random_words.ts";
import { type SyntheticModel, syntheticSource, writeFolder } from "./synthetic/source.ts";

const MODEL: SyntheticModel = {
  config: { architectures: ["Nothing"], vocab_size: 258 },
  tensors: [
    { name: "a", shape: [3, 5], values: { kind: "normal", mean: 0, sigma: 1 } },
    { name: "b", shape: [7], values: { kind: "nibbles" } },
    { name: "c", shape: [200, 333], values: { kind: "normal", mean: 1, sigma: 0.1 } },
    { name: "d", shape: [2, 3], values: { kind: "exponents", first: 119 } },
  ],
};

test("fillOf makes the same bytes for the same seed and name, for ever", () => {
  const bytes = (seed: number, name: string) => {
    const target = new Uint8Array(12);
    fillOf(seed, name, { kind: "normal", mean: 0, sigma: 1 })(target, 0);
    return [...target];
  };
  expect(bytes(1, "model.embed_tokens.weight")).toMatchInlineSnapshot(`
    [
      88,
      63,
      148,
      191,
      187,
      62,
      0,
      64,
      220,
      191,
      218,
      191,
    ]
  `);
  expect(bytes(2, "model.embed_tokens.weight")).not.toEqual(bytes(1, "model.embed_tokens.weight"));
  expect(bytes(1, "lm_head.weight")).not.toEqual(bytes(1, "model.embed_tokens.weight"));
});

test("fillOf draws from the distribution", () => {
  const bytes = new Uint8Array(2_000_000);
  fillOf(1, "x", { kind: "normal", mean: 0.5, sigma: 2 })(bytes, 0);
  const values = Array.from(new Uint16Array(bytes.buffer), decodeBf16);
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const square = values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length;
  expect(mean).toBeCloseTo(0.5, 2);
  expect(Math.sqrt(square)).toBeCloseTo(2, 2);
  const next = values.slice(1).reduce((sum, value, i) => sum + (value - mean) * values[i]!, 0);
  expect(next / values.length / square).toBeCloseTo(0, 2);
});

test("syntheticSource gives the same bytes in any pieces", async () => {
  const source = syntheticSource(MODEL, 3);
  const file = "model.safetensors";
  const size = (await source.list()).find(({ name }) => name === file)!.size;
  const whole = await source.read(file, 0, size);
  for (let i = 0; i < 200; i++) {
    const offset = (i * 7919) % size;
    const length = (i * i * 104729) % (size - offset + 1);
    const piece = await source.read(file, offset, length);
    expect(Buffer.compare(piece, whole.subarray(offset, offset + length))).toBe(0);
  }
  await expect(source.read(file, size - 1, 2)).rejects.toThrow("it ends at byte");
});

test("syntheticSource is a checkpoint with a tokenizer", async () => {
  const { tensors, source } = await Checkpoint.open(syntheticSource(MODEL, 3));
  expect([...tensors.keys()]).toEqual(["a", "b", "c", "d"]);
  expect(tensors.get("d")).toMatchObject({ dtype: "U8", shape: [2, 3] });
  const { offset } = tensors.get("d")!;
  for (const code of await source.read("model.safetensors", offset, 6)) {
    expect(code).toBeGreaterThanOrEqual(119);
    expect(code).toBeLessThanOrEqual(122);
  }
  const json = (await source.list()).find(({ name }) => name === "tokenizer.json")!;
  const text = new TextDecoder().decode(await source.read(json.name, 0, json.size));
  const tokenizer = createTokenizer(JSON.parse(text));
  expect(tokenizer.encode("aé<|end|>")).toEqual([0x61, 0xc3, 0xa9, EOS_TOKEN_ID]);
});

test("writeFolder writes what the source reads", async () => {
  const folder = await mkdtemp(join(tmpdir(), "wisp-synthetic-"));
  try {
    const source = syntheticSource(MODEL, 3);
    await writeFolder(source, folder);
    const written = folderSource(folder);
    for (const { name, size } of await source.list()) {
      const want = await source.read(name, 0, size);
      expect(Buffer.compare(await written.read(name, 0, size), want)).toBe(0);
    }
  } finally {
    await rm(folder, { recursive: true });
  }
});
