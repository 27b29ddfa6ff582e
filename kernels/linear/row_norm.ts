/**
 * A norm that a linear kernel does for itself, in place of a launch: `kernels/common/x_normed.wgsl`.
 *
 * @module
 */
import type { Constants } from "../../src/gpu/kernel.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { BLOCK_COLUMNS } from "./layout.ts";

/** What makes the rows that a kernel multiplies of its `x`: what `addNorm` makes of them, bit for bit. */
export interface RowNorm {
  /** `[columns]` f32 */
  readonly weight: Tensor;
  /** Added to the mean square before the root. */
  readonly eps: number;
  /** Whether normed rows go through E4M3 and back, one scale for each 128 columns. */
  readonly rounded: boolean;
}

export interface NormedRow {
  /** f32 */
  readonly x: Tensor;
  readonly norm: RowNorm;
}

const VECTOR_BYTES = 16;
const BLOCK_VECTORS = BLOCK_COLUMNS / 4;
/** For sums of squares, group maxima and what the kernels themselves keep. */
const OTHER_BYTES = 1536;

const rowVectors = (columns: number) => Math.ceil(columns / BLOCK_COLUMNS) * BLOCK_VECTORS;

/** Whether a workgroup of this device has room for a normed row. */
export function normFits(
  {
    maxComputeWorkgroupStorageSize: most,
  }: Pick<GPUSupportedLimits, "maxComputeWorkgroupStorageSize">,
  columns: number,
): boolean {
  return rowVectors(columns) * VECTOR_BYTES + OTHER_BYTES <= most;
}

/** Bytes of workgroup memory that normed rows take, of one row. */
export function normBytes(norm: RowNorm | undefined, columns: number): number {
  return norm === undefined ? 0 : rowVectors(columns) * VECTOR_BYTES + OTHER_BYTES;
}

/** The constants of common/x_normed.wgsl. */
export function normConstants(norm: RowNorm | undefined, columns: number): Constants {
  if (norm === undefined) return {};
  return { ROUNDED: norm.rounded, ROW_VECTORS: rowVectors(columns) };
}
