/**
 * What a block of a layer reads and writes: its normed rows, and where its result goes.
 *
 * @module
 */
import type { WeightDtype } from "../../kernels/linear/layout.ts";
import type { ActivationRounding } from "../../kernels/norm/quantize.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { RankSums } from "./rank_sums.ts";

export interface BlockRows {
  /** `[maxRows, hiddenStride]` f32 */
  readonly normed: Tensor;
  /** The same rounded as the inputs of quantized linears are, where they are. */
  readonly quantized: Tensor | undefined;
  /** How they are; there when `quantized` is. */
  readonly rounding: ActivationRounding | undefined;
  /** `[maxRows, hiddenStride]` f32 */
  readonly output: Tensor;
  readonly hiddenStride: number;
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
  { normed, quantized }: Pick<BlockRows, "normed" | "quantized">,
  weight: { readonly dtype: WeightDtype },
): Tensor {
  return takesRounded(weight) && quantized !== undefined ? quantized : normed;
}
