import { type BindOptions, type BoundKernel, Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import apartBindings from "../common/numbers/quantize_apart.wgsl?raw";
import e4m3 from "../common/numbers/quantize_e4m3.wgsl?raw";
import inPlaceBindings from "../common/numbers/quantize_in_place.wgsl?raw";
import int8 from "../common/numbers/quantize_int8.wgsl?raw";
import source from "./quantize.wgsl?raw";

const NAME = "norm/quantize";
const PARAMS = ["first_row", "cols", "group_columns", "stride", "out_stride"] as const;
const BLOCK_COLUMNS = 128;
/** Invocations for a group of 128 columns, and for a whole row. */
const BLOCK_WORKGROUP = 32;
const ROW_WORKGROUP = 256;

const inPlace = new Kernel({
  name: NAME,
  source: e4m3 + int8 + inPlaceBindings + source,
  buffers: ["x"],
  params: PARAMS,
});
const apart = new Kernel({
  name: NAME,
  source: e4m3 + int8 + apartBindings + source,
  buffers: ["x", "out"],
  params: PARAMS,
});

/** How activations are rounded before they meet quantized weights. */
export interface ActivationRounding {
  readonly format: "e4m3" | "int8";
  /** What shares a scale: 128 columns of a row, or the whole row. */
  readonly group: "block" | "row";
  /** E4M3 only: each scale is rounded up to a power of two. */
  readonly powersOfTwo?: boolean;
}

export const E4M3_BLOCKS: ActivationRounding = { format: "e4m3", group: "block" };

export interface QuantizeOptions {
  /** `[rows, stride]` f32; changed in place unless there is `out` */
  readonly x: Tensor;
  readonly cols: number;
  /** Elements from one row to the next. Default `cols`. */
  readonly stride?: number;
  /** `[rows, outStride]` f32; not the same buffer as `x` */
  readonly out?: Tensor | undefined;
  /** Default `stride`. */
  readonly outStride?: number;
  /** Default `E4M3_BLOCKS`. */
  readonly rounding?: ActivationRounding;
}

/**
 * Takes `x` through a narrower number format and back, with one scale for each group of a row:
 * e4m3 `max(largest magnitude, 1e-4) / 448`, int8 `largest magnitude / 127`.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows, from row `first`
 * on.
 */
export function quantize(
  recorder: Recorder,
  options: QuantizeOptions,
): (rows: number, first?: number) => void {
  const { x, cols, stride = cols, out, outStride = stride, rounding = E4M3_BLOCKS } = options;
  const byRow = rounding.group === "row";
  const groupColumns = byRow ? cols : BLOCK_COLUMNS;
  const values: BindOptions<(typeof PARAMS)[number]> = {
    constants: {
      WORKGROUP_SIZE: byRow ? ROW_WORKGROUP : BLOCK_WORKGROUP,
      INT8: rounding.format === "int8",
      POWERS_OF_TWO: rounding.powersOfTwo ?? false,
    },
    params: { cols, group_columns: groupColumns, stride, out_stride: outStride },
    cost: ({ grid: [, rows] }) => ({ bytes: 2 * rows * cols * 4, flops: 4 * rows * cols }),
  };
  const bound: BoundKernel<(typeof PARAMS)[number]> =
    out === undefined
      ? inPlace.bind(recorder, { x }, values)
      : apart.bind(recorder, { x, out }, values);
  const groups = Math.ceil(cols / groupColumns);
  return (rows, first = 0) => {
    bound.set("first_row", first);
    bound.record(groups, rows);
  };
}
