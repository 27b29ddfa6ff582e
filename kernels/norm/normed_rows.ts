/**
 * Rows of the residual stream as the blocks of a layer multiply them.
 *
 * A row's scale, 1 / rms, is known when the whole row is, but a kernel that writes a part of it
 * need not wait for that: it writes `x * weight`, what that is rounded to, and the sums of squares
 * of what it has. The kernel that multiplies the row scales its sums at the end: `row_scale.wgsl`.
 *
 * @module
 */
import type { Tensor } from "../../src/gpu/tensor.ts";

/** Columns of the residual stream whose squares have one sum: the least that a workgroup writes. */
export const SQUARES_COLUMNS = 32;

/** Where the sums of squares of a row of some matrix input are. */
export interface RowSquares {
  /** Elements from the input's first column to the first sum: a multiple of 4. */
  readonly column: number;
  /** Added to the mean square before the root. */
  readonly eps: number;
}

export interface NormedRows {
  /** `[rows, stride]` f32: `x * weight`, `rounded`, `squares` */
  readonly tensor: Tensor;
  readonly stride: number;
  /** The first column of the same through E4M3 and back, one scale for each 128 columns, if wanted. */
  readonly rounded: number | undefined;
  /** The first column of the sums of squares, one for each `SQUARES_COLUMNS` columns. */
  readonly squares: number;
}

/** Of a row's parts, so that each can be bound by itself. */
const ALIGNMENT = 64;
const aligned = (columns: number) => Math.ceil(columns / ALIGNMENT) * ALIGNMENT;

/** Where the parts of rows of so many columns are. */
export function normedShape(columns: number, rounds: boolean): Omit<NormedRows, "tensor"> {
  const width = aligned(columns);
  const squares = rounds ? 2 * width : width;
  const stride = squares + aligned(Math.ceil(columns / SQUARES_COLUMNS));
  return { stride, rounded: rounds ? width : undefined, squares };
}

/** The rows from one of their columns on: a multiple of 64. */
export function partOf({ tensor, squares, stride }: NormedRows, column: number, eps: number) {
  const { buffer, offset, size } = tensor;
  return {
    x: { buffer, offset: offset + column * 4, size: size - column * 4 },
    xStride: stride,
    squares: { column: squares - column, eps },
  };
}

/** What kernels that write the rows need of them. */
export function normedParams({ stride, rounded = 0, squares }: NormedRows) {
  return { normed_stride: stride, normed_rounded: rounded, normed_squares: squares };
}
