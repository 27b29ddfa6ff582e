/**
 * Tensors to load in tests, and a destination that keeps what it gets.
 *
 * @module
 */

import { expect } from "vitest";
import type { WeightChunk, WeightSpec } from "../../../src/checkpoint/weight_spec.ts";
import { DTYPE_BYTES, type Dtype, decodeBf16, decodeE4m3, decodeF16 } from "../../../src/dtype.ts";
import type { TensorInput } from "./write_checkpoint.ts";

/** Collects chunks, and says in which order things happened. */
export class Collector {
  readonly chunks: WeightChunk[] = [];
  finished = 0;
  readonly #log: string[] | undefined;
  readonly #name: string;

  constructor(name = "", log?: string[]) {
    this.#name = name;
    this.#log = log;
  }

  write(chunk: WeightChunk): void {
    expect(this.finished).toBe(0);
    this.chunks.push(chunk);
    this.#log?.push(`${this.#name} ${chunk.rowStart}+${chunk.rows}`);
  }

  finish(): void {
    this.finished++;
    this.#log?.push(`${this.#name} done`);
  }

  bytes(): Uint8Array {
    return Uint8Array.from(this.chunks.flatMap(({ bytes }) => [...bytes]));
  }
}

export function spec(
  tensor: Pick<TensorInput, "name" | "shape" | "dtype">,
  more: Partial<WeightSpec> = {},
) {
  const { name, shape, dtype } = tensor;
  const destination = new Collector(name);
  return { name, shape, dtypes: [dtype], split: "none" as const, destination, ...more };
}

function ramp(count: number): number[] {
  return Array.from({ length: count }, (_, i) => (i % 7) - 3);
}

/** One of each element type and odd shape. */
export const TENSORS: readonly TensorInput[] = [
  { name: "model.embed_tokens.weight", shape: [6, 4], dtype: "BF16", values: ramp(24) },
  { name: "model.layers.0.mlp.gate.weight", shape: [3, 4], dtype: "F32", values: ramp(12) },
  { name: "model.layers.0.q.weight", shape: [4, 3], dtype: "F8_E4M3", values: ramp(12) },
  { name: "model.layers.0.norm.weight", shape: [4], dtype: "F16", values: ramp(4) },
  { name: "model.layers.0.codes", shape: [2, 2, 3], dtype: "I8", values: ramp(12) },
  { name: "model.layers.0.packed", shape: [1, 5], dtype: "I32", values: ramp(5) },
  { name: "scale", shape: [], dtype: "F32", values: [0.5] },
  { name: "nothing", shape: [0, 9], dtype: "BF16", values: [] },
];

/** Numbers out of little-endian bytes. */
export function decode(bytes: Uint8Array, dtype: Dtype): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const read: Readonly<Record<Dtype, (at: number) => number>> = {
    F32: (at) => view.getFloat32(at, true),
    F16: (at) => decodeF16(view.getUint16(at, true)),
    BF16: (at) => decodeBf16(view.getUint16(at, true)),
    F8_E4M3: (at) => decodeE4m3(view.getUint8(at)),
    I8: (at) => view.getInt8(at),
    U8: (at) => view.getUint8(at),
    I32: (at) => view.getInt32(at, true),
    I64: (at) => Number(view.getBigInt64(at, true)),
  };
  const width = DTYPE_BYTES[dtype];
  return Array.from({ length: bytes.length / width }, (_, i) => read[dtype](i * width));
}
