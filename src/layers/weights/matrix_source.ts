/**
 * The matrix of a checkpoint that a matrix on the GPU is made of.
 *
 * @module
 */

import type { WeightSplit } from "../../checkpoint/weight_spec.ts";
import type { MatrixEncoding } from "./matrix_format.ts";
import type { RowSlice } from "./staged_rows.ts";

/** Where a matrix of a checkpoint comes from. `sourceColumn` is a multiple of 128 when columns share scales. */
export interface MatrixSource extends RowSlice {
  /** Tensor name without ".weight". */
  readonly name: string;
  readonly split: WeightSplit;
  /** Column of the checkpoint's matrix that its first one is: not 0 on a rank that has a part. */
  readonly firstColumn?: number;
  /** How its tensors spell it. Default: as the place's format has it. */
  readonly encoding?: MatrixEncoding;
}
