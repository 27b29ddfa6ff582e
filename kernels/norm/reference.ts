/**
 * Parts of the f64 references of the norms' checks; the product does not use them.
 *
 * @module
 */
import { decodeE4m3, encodeE4m3 } from "../../src/dtype.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { HostArrays } from "../check.ts";
import type { Addend } from "./addend.ts";
import { normedShape, SQUARES_COLUMNS } from "./normed_rows.ts";
import { type ActivationRounding, E4M3_BLOCKS } from "./quantize.ts";

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

/**
 * The least magnitude that a scale of E4M3 stands for, in rows that no kernel is still to scale.
 */
const LEAST_E4M3 = 1e-4;
/** The same in rows that a kernel is. */
const LEAST_UNSCALED = 1e-30;

interface ReferenceRounding extends ActivationRounding {
  /** Default: of E4M3 1e-4, of int8 0. */
  readonly least?: number;
}

/** Rounds the way the kernels do: in f32, so that ties fall alike. */
export function quantizeGroups(
  row: Float64Array,
  { format, group, powersOfTwo = false, ...rounding }: ReferenceRounding = E4M3_BLOCKS,
): Float64Array {
  const { least = format === "e4m3" ? LEAST_E4M3 : 0 } = rounding;
  const out = new Float64Array(row.length);
  const columns = group === "row" ? Math.max(row.length, 1) : 128;
  for (let first = 0; first < row.length; first += columns) {
    const values = row.subarray(first, first + columns);
    const amax = values.reduce((most, value) => Math.max(most, Math.abs(value)), least);
    const exact = Math.fround(Math.fround(amax) / (format === "e4m3" ? 448 : 127));
    const scale = powersOfTwo ? 2 ** Math.ceil(Math.log2(exact)) : exact;
    values.forEach((value, i) => {
      const quotient = Math.fround(Math.fround(value) / scale);
      const rounded = format === "e4m3" ? decodeE4m3(encodeE4m3(quotient)) : nearest(quotient);
      out[first + i] = scale === 0 ? 0 : rounded * scale;
    });
  }
  return out;
}

/**
 * A row of the residual stream as `normedShape(row.length, rounds)` has it, NaN in its padding.
 *
 * @param eps of the norm, where the row is scaled here already
 */
export function normedRow(
  row: Float64Array,
  weight: ArrayLike<number>,
  { rounds, eps }: { readonly rounds: boolean; readonly eps?: number | undefined },
): Float64Array {
  const { stride, rounded, squares } = normedShape(row.length, rounds);
  const out = new Float64Array(stride).fill(Number.NaN);
  const sums: number[] = [];
  for (let c = 0; c < row.length; c += SQUARES_COLUMNS) {
    const run = row.subarray(c, c + SQUARES_COLUMNS);
    sums.push(run.reduce((sum, value) => sum + value * value, 0));
  }
  const mean = sums.reduce((all, sum) => all + sum, 0) / row.length;
  const scale = eps === undefined ? 1 : 1 / Math.sqrt(mean + eps);
  const normed = row.map((value, c) => value * weight[c]! * scale);
  out.set(normed);
  if (rounded !== undefined) {
    const least = eps === undefined ? { least: LEAST_UNSCALED } : {};
    out.set(quantizeGroups(normed, { ...E4M3_BLOCKS, ...least }), rounded);
  }
  out.set(eps === undefined ? sums : sums.fill(-1), squares);
  return out;
}

/** The nearest whole number from -127 to 127, ties to even. */
function nearest(value: number): number {
  const below = Math.floor(value);
  const above = value - below - 0.5;
  const up = above > 0 || (above === 0 && below % 2 !== 0);
  return Math.min(Math.max(below + (up ? 1 : 0), -127), 127);
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
