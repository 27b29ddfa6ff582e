import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { type RecordRange, rowsOf } from "../weights/launch_form.ts";
import type { PlacedWeight } from "../weights/layout.ts";
import { weightCost } from "../weights/weight_cost.ts";
import { requireMultiplesOf4, weightTensors } from "../weights/weight_kernel.ts";
import { matrixConstants, matrixKernels, recordTileRows, tileOutputs } from "./matrix_kernel.ts";
import source from "./matrix_linear.wgsl?raw";
import type { MatrixTiles, TileRows } from "./matrix_tiles.ts";

const NAME = "linear/matrix_linear";

const kernels = matrixKernels({
  name: NAME,
  source,
  buffers: ["x", "weights", "scales", "bias", "out"],
  params: [
    "rows",
    "first_row",
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

export interface MatrixLinearOptions {
  /** `[rows, xStride]` f32; what lies beyond `weight.columns` is not used */
  readonly x: Tensor;
  /** A multiple of 4. */
  readonly xStride: number;
  readonly weight: PlacedWeight;
  readonly tiles: MatrixTiles;
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
}

/**
 * `out[r, n] = sum over k of x[r, k] * W[n, k]`, `+ bias[n]` where the weight has one, in numeric
 * class mma128.
 *
 * Binds the tensors now; the returned function records one launch over a range of rows, once a
 * submit. A row's bits depend on that row alone.
 */
export function matrixLinear(recorder: Recorder, options: MatrixLinearOptions): RecordRange {
  const { x, xStride, weight, tiles, out, outStride, outColumn = 0, segments = 1 } = options;
  const { groups = { rows: weight.rows, xStride: 0 } } = options;
  requireMultiplesOf4(NAME, { xStride, groupStride: groups.xStride });
  const width = (tileRows: TileRows) =>
    Math.ceil(weight.rows / groups.rows) * Math.ceil(groups.rows / tileOutputs(tileRows, segments));
  return recordTileRows({ width, mostRows: rowsOf(x, xStride) }, (tileRows) =>
    kernels(weight, tiles).bind(
      recorder,
      { x, ...weightTensors(NAME, weight), out },
      {
        constants: matrixConstants(weight, tiles, {
          tileRows,
          segments,
          bias: weight.bias !== undefined,
        }),
        params: {
          outputs: weight.rows,
          columns: weight.columns,
          rows_padded: weight.rowsPadded,
          segments,
          x_stride: xStride,
          out_stride: outStride,
          out_column: outColumn,
          group_rows: groups.rows,
          group_stride: groups.xStride,
        },
        cost: ({ param }) => weightCost(weight, param("rows") - param("first_row"), weight.rows),
      },
    ),
  );
}
