import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import int8 from "../common/numbers/quantize_int8.wgsl?raw";
import type { ActivationRounding } from "./quantize.ts";
import source from "./quantize_codes.wgsl?raw";

const BLOCK_COLUMNS = 128;
const BLOCK_WORDS = BLOCK_COLUMNS / 4;
/** Invocations for 128 columns, and for a whole row. */
const BLOCK_WORKGROUP = 32;
const ROW_WORKGROUP = 256;

const kernel = new Kernel({
  name: "norm/quantize_codes",
  source: int8 + source,
  buffers: ["x", "out"],
  params: ["cols", "stride", "out_stride"],
});

export interface QuantizeCodesOptions {
  /** `[rows, stride]` f32 */
  readonly x: Tensor;
  readonly cols: number;
  readonly stride: number;
  /** `[rows, codedStride(cols)]` words */
  readonly out: Tensor;
  /** What shares a scale. */
  readonly group: ActivationRounding["group"];
}

/** Words from one row of codes to the next: four columns each, then the scales. */
export function codedStride(columns: number): number {
  const blocks = Math.ceil(columns / BLOCK_COLUMNS);
  return Math.ceil((blocks * (BLOCK_WORDS + 1)) / 4) * 4;
}

/**
 * The codes and scales that `quantize` to int8 finds, for linears that multiply codes.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function quantizeCodes(
  recorder: Recorder,
  options: QuantizeCodesOptions,
): (rows: number) => void {
  const { x, cols, stride, out, group } = options;
  const byRow = group === "row";
  const bound = kernel.bind(
    recorder,
    { x, out },
    {
      constants: { WORKGROUP_SIZE: byRow ? ROW_WORKGROUP : BLOCK_WORKGROUP, BY_ROW: byRow },
      params: { cols, stride, out_stride: codedStride(cols) },
      cost: ({ grid: [, rows] }) => ({ bytes: 5 * rows * cols, flops: 4 * rows * cols }),
    },
  );
  const groups = byRow ? 1 : Math.ceil(cols / BLOCK_COLUMNS);
  return (rows) => bound.record(groups, rows);
}
