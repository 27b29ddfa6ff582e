/**
 * Arithmetic of the reference model, in f64.
 *
 * @module
 */
import { decodeE4m3, encodeE4m3 } from "../../../src/dtype.ts";
import type { ReferenceRounding, ReferenceTensor } from "./reference_weights.ts";

export type Row = Float64Array;

export function magnitude(factor: number, mscale: number): number {
  return factor <= 1 ? 1 : 0.1 * mscale * Math.log(factor) + 1;
}

/**
 * Each group of channels over its scale, rounded; the last group may be shorter. Scales are the
 * largest magnitude over 448 (E4M3, of at least 1e-4) or 127 (int8).
 */
export function roundInput(row: Row, rounding: ReferenceRounding | undefined): Row {
  if (rounding === undefined) return row;
  const { format, group, powersOfTwo = false } = rounding;
  const out = new Float64Array(row.length);
  for (let start = 0; start < row.length; start += group) {
    const end = Math.min(start + group, row.length);
    let most = format === "int8" ? 0 : 1e-4;
    for (let i = start; i < end; i++) most = Math.max(most, Math.abs(row[i]!));
    const exact = most / (format === "int8" ? 127 : 448);
    const scale = powersOfTwo ? 2 ** Math.ceil(Math.log2(exact)) : exact;
    for (let i = start; i < end && scale > 0; i++)
      out[i] = nearest(row[i]! / scale, format) * scale;
  }
  return out;
}

function nearest(value: number, format: ReferenceRounding["format"]): number {
  if (format === "e4m3") return decodeE4m3(encodeE4m3(value));
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 !== 0) ? below + 1 : below;
}

/** Indices of the `count` largest, descending, the lower index first among equals. */
export function largest(values: readonly number[], count: number): number[] {
  return [...values.keys()].sort((a, b) => values[b]! - values[a]! || a - b).slice(0, count);
}

export function rowOf({ values, columns }: ReferenceTensor, row: number): Row {
  return values.subarray(row * columns, (row + 1) * columns);
}

/** Columns beyond the input are padding. */
export function matrixTimes(matrix: ReferenceTensor, input: Row): Row {
  return Float64Array.from({ length: matrix.rows }, (_, row) => dot(input, rowOf(matrix, row)));
}

export function dot(a: Row, b: Row): number {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i]! * b[i]!;
  return sum;
}

export function addTo(to: Row, row: Row, factor: number): void {
  for (let i = 0; i < to.length; i++) to[i]! += row[i]! * factor;
}

export function logSoftmax(row: Row): Row {
  let most = Number.NEGATIVE_INFINITY;
  for (const x of row) most = Math.max(most, x);
  let sum = 0;
  for (const x of row) sum += Math.exp(x - most);
  return row.map((x) => x - most - Math.log(sum));
}
