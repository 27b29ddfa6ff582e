/**
 * A checkpoint whose draft layer predicts nothing: its numbers stand in another order.
 *
 * @module
 */
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";

/** @param layers Of the model; the draft layer's tensors have the next number. */
export async function uselessDrafts(source: WeightSource, layers: number): Promise<WeightSource> {
  const { tensors } = await Checkpoint.open(source);
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const { name, size } of await source.list()) {
    files.set(name, await source.read(name, 0, size));
  }
  let changed = 0;
  for (const [name, { file, offset, byteLength, shape }] of tensors) {
    if (!name.startsWith(`model.layers.${layers}.`)) continue;
    const count = shape.reduce((product, size) => product * size, 1);
    reverse(files.get(file)!.subarray(offset, offset + byteLength), byteLength / count);
    changed += 1;
  }
  if (changed === 0) throw new Error(`${source.name} has no draft layer ${layers}`);
  return {
    name: `${source.name}, with useless drafts`,
    list: async () => [...files].map(([name, { length: size }]) => ({ name, size })),
    read: async (file, offset, length) => files.get(file)!.slice(offset, offset + length),
  };
}

/** Turns numbers of so many bytes around. */
function reverse(numbers: Uint8Array, bytes: number): void {
  const before = numbers.slice();
  for (let at = 0; at < before.length; at += bytes) {
    numbers.set(before.subarray(at, at + bytes), before.length - bytes - at);
  }
}
