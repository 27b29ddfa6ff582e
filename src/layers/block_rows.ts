/**
 * What a block of a layer reads and writes: its normed rows, and where its result goes.
 *
 * @module
 */
import type { WeightDtype } from "../../kernels/linear/layout.ts";
import type { NormedRow } from "../../kernels/linear/row_norm.ts";
import type { ActivationRounding } from "../../kernels/norm/quantize.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { RankSums } from "./rank_sums.ts";
import type { LinearInput, RowCodes } from "./rounded_rows.ts";

/** The norm in front of a block, for kernels that norm the residual stream's row themselves. */
export interface BlockNorm {
  /** `[maxRows, hiddenStride]` f32: the residual stream */
  readonly hidden: Tensor;
  /** `[hiddenSize]` f32 */
  readonly weight: Tensor;
  readonly eps: number;
}

export interface BlockRows {
  /** `[maxRows, hiddenStride]` f32 */
  readonly normed: Tensor;
  /** The same rounded as the inputs of quantized linears are, where they are. */
  readonly quantized: LinearInput | undefined;
  /** How they are; there when `quantized` is. */
  readonly rounding: ActivationRounding | undefined;
  /** There where rounded rows are kept as codes. */
  readonly codes?: RowCodes | undefined;
  /** `[maxRows, hiddenStride]` f32 */
  readonly output: Tensor;
  readonly hiddenStride: number;
  /** There where a generated row alone has no launch for its norm: `normed` is not of that row then. */
  readonly norm?: BlockNorm | undefined;
  /**
   * `[maxRows, hiddenStride]` f32 that a generated row alone adds its result to, in place of writing
   * `output`; experts do so for few rows.
   */
  readonly residual?: Tensor | undefined;
  /** Where row-parallel linears meet the other ranks; absent on one rank. */
  readonly sums?: RankSums | undefined;
}

/** Weights whose inputs a checkpoint's scheme rounds. */
export function takesRounded({ dtype }: { readonly dtype: WeightDtype }): boolean {
  return dtype === "fp8" || dtype === "int8";
}

/** Whether kernels round their own results this way; else it takes a launch of its own. */
export function isFused(rounding: ActivationRounding | undefined): boolean {
  return rounding?.format === "e4m3" && rounding.group === "block" && !rounding.powersOfTwo;
}

/** A checkpoint may keep some linears as they were: those read their rows unrounded. */
export function rowsFor(
  { normed, quantized, hiddenStride }: Pick<BlockRows, "normed" | "quantized" | "hiddenStride">,
  weight: { readonly dtype: WeightDtype },
): LinearInput {
  if (takesRounded(weight) && quantized !== undefined) return quantized;
  return { x: normed, xStride: hiddenStride };
}

/** What a kernel over one row takes in place of `rowsFor`, where the row has no launch for its norm. */
export function normedRow(
  { norm, quantized }: Pick<BlockRows, "norm" | "quantized">,
  weight: { readonly dtype: WeightDtype },
): NormedRow | undefined {
  if (norm === undefined) return undefined;
  const { hidden, ...rest } = norm;
  return { x: hidden, norm: { ...rest, rounded: takesRounded(weight) && quantized !== undefined } };
}
