import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./rms_norm.wgsl?raw";

const kernel = new Kernel({
  name: "norm/rms_norm",
  source,
  buffers: ["x", "weight", "out"],
  params: ["cols", "x_stride", "out_stride", "eps"],
});

export interface RmsNormOptions {
  /** `[rows, xStride]` f32; the first `cols` of each row are used */
  readonly x: Tensor;
  /** `[cols]` f32 */
  readonly weight: Tensor;
  /** `[rows, outStride]` f32; not the same buffer as `x` */
  readonly out: Tensor;
  readonly cols: number;
  /** Default `cols`. */
  readonly xStride?: number;
  /** Default `cols`. */
  readonly outStride?: number;
  /** Added to the mean square before the root. */
  readonly eps: number;
}

/**
 * `out = x / rms(x) * weight`, row by row.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function rmsNorm(recorder: Recorder, options: RmsNormOptions): (rows: number) => void {
  const { x, weight, out, cols, xStride = cols, outStride = cols, eps } = options;
  const bound = kernel.bind(
    recorder,
    { x, weight, out },
    {
      params: { cols, x_stride: xStride, out_stride: outStride, eps },
      cost: ({ grid: [rows] }) => ({ bytes: (2 * rows + 1) * cols * 4, flops: 4 * rows * cols }),
    },
  );
  return (rows) => bound.record(rows);
}
