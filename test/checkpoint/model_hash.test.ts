import { expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { modelHash } from "../../src/checkpoint/model_hash.ts";
import type { WeightSource } from "../../src/checkpoint/source.ts";

interface Contents {
  readonly config?: string;
  readonly shape?: readonly number[];
  readonly first?: number;
  readonly names?: readonly string[];
  /** End of the names of tensors that are others. */
  readonly changed?: string;
}

/** Tensors of 8 bytes each. */
function source({
  config = "{}",
  shape = [2, 2],
  first = 1,
  names = ["a", "b"],
  changed = "",
}: Contents = {}) {
  const entries = names.map((name, i) => {
    return [name, { dtype: "BF16", shape, data_offsets: [8 * i, 8 * i + 8] }];
  });
  const header = new TextEncoder().encode(JSON.stringify(Object.fromEntries(entries)));
  const bytes = new Uint8Array(8 + header.length + 8 * names.length);
  new DataView(bytes.buffer).setUint32(0, header.length, true);
  bytes.set(header, 8);
  bytes[8 + header.length] = first;
  names.forEach((name, i) => {
    if (changed !== "" && name.endsWith(changed)) bytes[8 + header.length + 8 * i] = 77;
  });
  const files = new Map([
    ["config.json", new TextEncoder().encode(config)],
    ["model.safetensors", bytes],
  ]);
  return {
    name: "memory",
    list: async () => [...files].map(([name, { length }]) => ({ name, size: length })),
    read: async (file, offset, length) => files.get(file)!.slice(offset, offset + length),
  } satisfies WeightSource;
}

const hash = async (contents?: Contents) => modelHash(await Checkpoint.open(source(contents)));

test("modelHash() is the same for the same checkpoint, wherever it lies", async () => {
  const one = await hash();
  expect(one).toMatch(/^[0-9a-f]{32}$/);
  expect(await hash()).toBe(one);
});

test("modelHash() changes with config.json, names, shapes and first bytes of tensors", async () => {
  const all = [
    await hash(),
    await hash({ config: '{"a":1}' }),
    await hash({ shape: [4, 1] }),
    await hash({ first: 2 }),
    await hash({ names: ["a", "c"] }),
  ];
  expect(new Set(all).size).toBe(all.length);
});

test("modelHash() changes with any one projection of all layers, however many there are", async () => {
  const parts = ["norm_in", "down", "gate", "up", "norm_out", "k", "o", "q", "v"];
  for (const layers of [12, 32, 61, 80]) {
    const names = Array.from({ length: layers }, (_, i) => parts.map((part) => `${i}.${part}`));
    const all = { names: ["embedding", "head", "norm", ...names.flat()] };
    const hashes = await Promise.all(parts.map((part) => hash({ ...all, changed: `.${part}` })));
    expect(new Set([await hash(all), ...hashes]).size).toBe(1 + parts.length);
  }
});
