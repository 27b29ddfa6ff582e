/**
 * Arithmetic of the reference model, in f64.
 *
 * @module
 */
import { decodeE4m3, encodeE4m3 } from "../../src/dtype.ts";
import type { ReferenceTensor } from "./reference_weights.ts";

export type Row = Float64Array;

export function magnitude(factor: number, mscale: number): number {
  return factor <= 1 ? 1 : 0.1 * mscale * Math.log(factor) + 1;
}

/** Per 128 channels a scale of largest / 448; the last group may be shorter. */
export function roundToE4m3(row: Row): Row {
  const out = new Float64Array(row.length);
  for (let start = 0; start < row.length; start += 128) {
    const end = Math.min(start + 128, row.length);
    let most = 1e-4;
    for (let i = start; i < end; i++) most = Math.max(most, Math.abs(row[i]!));
    const scale = most / 448;
    for (let i = start; i < end; i++) out[i] = decodeE4m3(encodeE4m3(row[i]! / scale)) * scale;
  }
  return out;
}

/** Indices of the `count` largest, descending, the lower index first among equals. */
export function largest(values: readonly number[], count: number): number[] {
  return [...values.keys()].sort((a, b) => values[b]! - values[a]! || a - b).slice(0, count);
}

export function rowOf({ values, columns }: ReferenceTensor, row: number): Row {
  return values.subarray(row * columns, (row + 1) * columns);
}

export function matrixTimes(matrix: ReferenceTensor, input: Row): Row {
  return Float64Array.from({ length: matrix.rows }, (_, row) => dot(rowOf(matrix, row), input));
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
