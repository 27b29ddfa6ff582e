/**
 * Rows for the checks of kernels that scale them: with sums of squares behind their columns.
 *
 * @module
 */
import { type RowSquares, SQUARES_COLUMNS } from "../../norm/normed_rows.ts";
import { randomRows } from "./check_weights.ts";

/** The row that says that it is scaled already. */
const SCALED_ROW = 1;
/** About a seventh of the mean squares. */
const EPS = 0.05;

const aligned = (columns: number) => Math.ceil(columns / 4) * 4 + 4;
const sumsOf = (columns: number) => Math.ceil(columns / SQUARES_COLUMNS);

/** Where the sums of rows of so many columns are. */
export function squaresOf(columns: number): RowSquares {
  return { column: aligned(columns), eps: EPS };
}

/** Elements from one row to the next. */
export function squaredStride(columns: number): number {
  return aligned(columns) + aligned(sumsOf(columns));
}

/** Random rows with random sums, and NaN behind the columns and behind the sums. */
export function randomSquaredRows(
  { rows, columns }: { readonly rows: number; readonly columns: number },
  random: () => number,
): Float32Array {
  const stride = squaredStride(columns);
  const x = randomRows({ rows, columns, stride }, random);
  for (let r = 0; r < rows; r++) {
    const sums = x.subarray(r * stride + squaresOf(columns).column).subarray(0, sumsOf(columns));
    // Of a row that is scaled the first sum says so, and no other is looked at.
    if (r === SCALED_ROW) sums[0] = -1;
    else sums.set(Array.from(sums, () => SQUARES_COLUMNS * (0.1 + 0.5 * random())));
  }
  return x;
}

/** What the sums of a row are multiplied with. */
export function scaleOf(x: ArrayLike<number>, row: number, columns: number): number {
  const { column, eps } = squaresOf(columns);
  const first = row * squaredStride(columns) + column;
  if (x[first]! < 0) return 1;
  let all = 0;
  for (let i = 0; i < sumsOf(columns); i++) all += x[first + i]!;
  return 1 / Math.sqrt(all / columns + eps);
}
