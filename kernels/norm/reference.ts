/**
 * Parts of the f64 references of the norms' checks; the product does not use them.
 *
 * @module
 */
import { decodeE4m3, encodeE4m3 } from "../../src/dtype.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { HostArrays } from "../check.ts";
import type { Addend } from "./addend.ts";

/** What the inputs of a norm with an addend depend on. */
export interface AddendShape {
  readonly rows: number;
  readonly cols: number;
  readonly padding: number;
  /** 0: none, 1: row, 1 + n: combine n slots. */
  readonly form: number;
  readonly scale: number;
}

/** What is added to column `c` of row `r`. */
export function addendOf(form: number, inputs: HostArrays, r: number, c: number, stride: number) {
  if (form === 0) return 0;
  if (form === 1) return inputs.addend![r * stride + c]!;
  const slots = form - 1;
  let sum = 0;
  for (let slot = 0; slot < slots; slot++) {
    const pair = r * slots + slot;
    sum += inputs.slot_weights![pair]! * inputs.addend![pair * stride + c]!;
  }
  return sum;
}

/** Rounds through E4M3 the way the kernel does: in f32, so that ties fall alike. */
export function quantizeGroups(row: Float64Array): Float64Array {
  const out = new Float64Array(row.length);
  for (let first = 0; first < row.length; first += 128) {
    const group = row.subarray(first, first + 128);
    const amax = group.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-4);
    const scale = Math.fround(Math.fround(amax) / 448);
    group.forEach((value, i) => {
      const code = encodeE4m3(Math.fround(Math.fround(value) / scale));
      out[first + i] = decodeE4m3(code) * scale;
    });
  }
  return out;
}

export const addendInputs = (
  { rows, cols, padding, form, scale }: AddendShape,
  random: () => number,
) => {
  const stride = cols + padding;
  const slots = Math.max(form - 1, 1);
  const fill = (length: number) => Float32Array.from({ length }, () => (random() * 2 - 1) * scale);
  return {
    x: fill(rows * stride),
    addend: fill(form === 0 ? 4 : rows * slots * stride),
    slot_weights: Float32Array.from({ length: rows * slots }, random),
    weight: Float32Array.from({ length: cols }, () => 0.5 + random()),
  };
};

export const addendOption = (form: number, addend: Tensor, weights: Tensor): Addend | undefined => {
  if (form === 0) return undefined;
  if (form === 1) return { kind: "row", tensor: addend };
  return { kind: "combine", y: addend, weights, slots: form - 1 };
};
