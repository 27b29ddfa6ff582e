/**
 * What a block of a layer reads and writes: its normed rows, and where its result goes.
 *
 * @module
 */
import type { WeightDtype } from "../../kernels/linear/layout.ts";
import type { Tensor } from "../gpu/tensor.ts";

export interface BlockRows {
  /** `[maxRows, hiddenStride]` f32 */
  readonly normed: Tensor;
  /** The same rounded to E4M3, and a sign that the inputs of all FP8 linears are. */
  readonly quantized: Tensor | undefined;
  /** `[maxRows, hiddenStride]` f32 */
  readonly output: Tensor;
  readonly hiddenStride: number;
}

/** A checkpoint may keep some linears as they were: those read their rows unrounded. */
export function rowsFor(
  { normed, quantized }: Pick<BlockRows, "normed" | "quantized">,
  weight: { readonly dtype: WeightDtype },
): Tensor {
  return weight.dtype === "fp8" && quantized !== undefined ? quantized : normed;
}
