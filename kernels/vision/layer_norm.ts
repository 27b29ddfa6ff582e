import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import rowSum from "../common/dot/row_sum.wgsl?raw";
import source from "./layer_norm.wgsl?raw";

const kernel = new Kernel({
  name: "vision/layer_norm",
  source: rowSum + source,
  buffers: ["x", "addend", "weight", "bias", "out"],
  params: ["cols", "eps"],
});

export interface LayerNormOptions {
  /** `[rows, cols]` f32, the residual stream: the addend is added to it. */
  readonly x: Tensor;
  /** `[rows, cols]` f32. Absent: nothing is added and `x` stays as it is. */
  readonly addend?: Tensor | undefined;
  /** `[cols]` f32 */
  readonly weight: Tensor;
  /** `[cols]` f32. Absent: nothing is subtracted from the values either, it is an RMSNorm. */
  readonly bias?: Tensor | undefined;
  /** `[rows, cols]` f32 */
  readonly out: Tensor;
  readonly cols: number;
  /** Added to the variance before the root. */
  readonly eps: number;
}

/**
 * `x += addend`, `out = (x - mean) / sqrt(variance + eps) * weight + bias`, row by row.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function layerNorm(recorder: Recorder, options: LayerNormOptions): (rows: number) => void {
  const { x, addend, weight, bias, out, cols, eps } = options;
  const bound = kernel.bind(
    recorder,
    // A binding cannot stay empty.
    { x, addend: addend ?? weight, weight, bias: bias ?? weight, out },
    {
      constants: { ADDS: addend !== undefined, CENTERED: bias !== undefined },
      params: { cols, eps },
      cost: ({ grid: [rows] }) => ({
        bytes: (rows * (addend === undefined ? 2 : 4) + 2) * cols * 4,
        flops: rows * cols * 8,
      }),
    },
  );
  return (rows) => bound.record(rows);
}
