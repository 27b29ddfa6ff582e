import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { LinearWeight } from "./layout.ts";
import source from "./linear.wgsl?raw";
import {
  DEFAULT_TOKENS,
  requireMultiplesOf4,
  weightConstants,
  weightKernels,
  weightTensors,
} from "./weight_kernel.ts";

const NAME = "linear/linear";
const ROWS_PER_LANE = 4;

const kernels = weightKernels({
  name: NAME,
  source,
  buffers: ["x", "weights", "scales", "bias", "out"],
  params: [
    "rows",
    "outputs",
    "columns",
    "rows_padded",
    "segments",
    "x_stride",
    "out_stride",
    "out_column",
    "group_rows",
    "group_stride",
  ],
});

export interface LinearOptions {
  /** `[rows, xStride]` f32; what lies beyond `weight.columns` is not used */
  readonly x: Tensor;
  /** A multiple of 4. */
  readonly xStride: number;
  readonly weight: LinearWeight;
  /** `[rows, outStride]` f32; not the same buffer as `x` */
  readonly out: Tensor;
  readonly outStride: number;
  /** Column of `out` that output 0 goes to. Default 0. */
  readonly outColumn?: number;
  /** Segments of a row-parallel linear (`segments()` of layout.ts). Default 1. */
  readonly segments?: number;
  /** Gives each run of `rows` outputs its own slice of `x`, as per-head projections need. */
  readonly groups?: {
    /** Weight rows of a group. */
    readonly rows: number;
    /** Elements between the slices of neighbouring groups: a multiple of 4. */
    readonly xStride: number;
  };
  /** Activation rows of an invocation when there are several; never changes a bit. Default 4. */
  readonly tokens?: number;
  /** Invocations of a workgroup: a multiple of the weight's lanes. Default the lanes. */
  readonly workgroupSize?: number;
}

/**
 * `out[r, n] = sum over k of x[r, k] * W[n, k]`, `+ bias[n]` where the weight has one.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows. A row's bits
 * depend on that row alone.
 */
export function linear(recorder: Recorder, options: LinearOptions): (rows: number) => void {
  const { x, xStride, weight, out, outStride, outColumn = 0, segments = 1, groups } = options;
  const { tokens = DEFAULT_TOKENS, workgroupSize = weight.lanes } = options;
  const groupRows = groups?.rows ?? weight.rows;
  const groupStride = groups?.xStride ?? 0;
  requireMultiplesOf4(NAME, { xStride, groupStride });
  const bind = (rowsPerLane: number) =>
    kernels(weight).bind(
      recorder,
      { x, ...weightTensors(NAME, weight), out },
      {
        constants: {
          ...weightConstants(weight, {
            tokens: rowsPerLane,
            segments,
            bias: weight.bias !== undefined,
          }),
          WORKGROUP_SIZE: workgroupSize,
        },
        params: {
          outputs: weight.rows,
          columns: weight.columns,
          rows_padded: weight.rowsPadded,
          segments,
          x_stride: xStride,
          out_stride: outStride,
          out_column: outColumn,
          group_rows: groupRows,
          group_stride: groupStride,
        },
      },
    );
  const one = bind(1);
  const several = tokens === 1 ? one : bind(tokens);
  const width =
    Math.ceil(weight.rows / groupRows) * Math.ceil(groupRows / (ROWS_PER_LANE * workgroupSize));
  return (rows) => {
    const bound = rows === 1 ? one : several;
    bound.set("rows", rows);
    bound.record(width, Math.ceil(rows / (rows === 1 ? 1 : tokens)));
  };
}
