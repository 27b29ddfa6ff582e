import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import e4m3 from "../common/quantize_e4m3.wgsl?raw";
import source from "./quantize.wgsl?raw";

const kernel = new Kernel({
  name: "norm/quantize",
  source: e4m3 + source,
  buffers: ["x"],
  params: ["cols", "stride"],
});

export interface QuantizeOptions {
  /** `[rows, stride]` f32, changed in place */
  readonly x: Tensor;
  readonly cols: number;
  /** Elements from one row to the next. Default `cols`. */
  readonly stride?: number;
}

/**
 * Takes `x` through E4M3 and back in place, one scale per row and 128 columns.
 *
 * Binds the tensor now; the returned function records one launch over `rows` rows.
 */
export function quantize(recorder: Recorder, options: QuantizeOptions): (rows: number) => void {
  const { x, cols, stride = cols } = options;
  const bound = kernel.bind(recorder, { x }, { params: { cols, stride } });
  const groups = Math.ceil(cols / 128);
  return (rows) => bound.record(groups, rows);
}
