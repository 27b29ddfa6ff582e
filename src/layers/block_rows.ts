/**
 * What a block of a layer reads and writes: its normed rows, and where its result goes.
 *
 * @module
 */

import type { LinearLayout } from "../../kernels/linear/linear_layout.ts";
import type { Residual } from "../../kernels/linear/residual_linear.ts";
import type { WeightDtype } from "../../kernels/linear/weights/layout.ts";
import type { ActivationRounding } from "../../kernels/norm/quantize.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { StepRows } from "./batch.ts";
import type { RankSums } from "./ranks/rank_sums.ts";
import type { InputRounding, LinearInput, RowCodes } from "./rounded_rows.ts";

export interface BlockRows {
  /** Rows behind the norm in front of the block. */
  readonly normed: LinearInput;
  /** The same rounded as the inputs of quantized linears are, where they are. */
  readonly quantized: LinearInput | undefined;
  /** How they are; there when `quantized` is. */
  readonly rounding: ActivationRounding | undefined;
  /** There where rounded rows are kept as codes. */
  readonly codes?: RowCodes | undefined;
  /** `[maxRows, hiddenStride]` f32 */
  readonly output: Tensor;
  readonly hiddenStride: number;
  /**
   * Where the block may add its result itself, in place of writing `output`, and what comes after it:
   * absent where it never does. `AddsRows` says in which steps it does.
   */
  readonly residual?: Residual | undefined;
  /** Where row-parallel linears meet the other ranks; absent on one rank. */
  readonly sums?: RankSums | undefined;
}

/** Whether in such a step a block adds its result to the residual stream itself. */
export type AddsRows = (step: StepRows) => boolean;

/** Weights whose inputs a checkpoint's scheme rounds. */
export function takesRounded({ dtype }: { readonly dtype: WeightDtype }): boolean {
  return dtype === "fp8" || dtype === "int8";
}

/** Whether kernels round their own results this way; else it takes a launch of its own. */
export function isFused(rounding: ActivationRounding | undefined): boolean {
  return rounding?.format === "e4m3" && rounding.group === "block" && !rounding.powersOfTwo;
}

/** How the inputs of this linear are rounded. */
export function inputRounding(
  rounding: ActivationRounding | undefined,
  weight: { readonly dtype: WeightDtype },
): InputRounding {
  if (rounding === undefined || !takesRounded(weight)) return "none";
  return isFused(rounding) ? "inKernel" : "apart";
}

/** Which rows matrices multiply. */
export type MatrixRows = "none" | "prompts" | "all";

export function matrixRows(matrix: LinearLayout["matrix"]): MatrixRows {
  if (matrix === undefined) return "none";
  return matrix.decode ? "all" : "prompts";
}

/** A checkpoint may keep some linears as they were: those read their rows unrounded. */
export function rowsFor(
  { normed, quantized }: Pick<BlockRows, "normed" | "quantized">,
  weight: { readonly dtype: WeightDtype },
): LinearInput {
  return takesRounded(weight) && quantized !== undefined ? quantized : normed;
}
