import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import expertTile from "../../common/moe/expert_tile.wgsl?raw";
import { matrixConstants, matrixKernels, tileOutputs } from "../../linear/matrix/matrix_kernel.ts";
import type { TileRows } from "../../linear/matrix/matrix_tiles.ts";
import { expertCost } from "../../linear/weights/weight_cost.ts";
import { requireMultiplesOf4, weightTensors } from "../../linear/weights/weight_kernel.ts";
import { paddedRows } from "../../linear/weights/weight_order.ts";
import source from "./matrix_expert_down.wgsl?raw";
import {
  type MatrixExpertOptions,
  matrixPairs,
  type RecordPairs,
  recordPairTiles,
} from "./matrix_pairs.ts";

const NAME = "moe/matrix_expert_down";

const kernels = matrixKernels({
  name: NAME,
  source: [source, expertTile].join("\n"),
  buffers: ["x", "weights", "scales", "bias", "pairs", "tiles", "out"],
  params: [
    "first_expert",
    "expert_count",
    "outputs",
    "columns",
    "rows_padded",
    "segments",
    "x_stride",
    "out_stride",
  ],
});

export interface MatrixExpertDownOptions extends MatrixExpertOptions {
  /** `[rows * slots, xStride]` f32; what lies beyond `weights.columns` is not used */
  readonly x: Tensor;
  /** Segments of a row-parallel linear (`segments()` of layout.ts). Default 1. */
  readonly segments?: number;
}

/**
 * `out[p, n] = sum over k of x[p, k] * W[n, k]`, `+ bias[n]` where there is one, with the weights of
 * the expert of pair `p`, in numeric class mma128.
 *
 * Binds the tensors now; the returned function records one launch for each slab.
 */
export function matrixExpertDown(
  recorder: Recorder,
  options: MatrixExpertDownOptions,
): RecordPairs {
  const { x, xStride, sortedPairs, tileList, weights, tiles, out, outStride } = options;
  const { segments = 1 } = options;
  const { columns, rows: outputs } = weights;
  requireMultiplesOf4(NAME, { xStride });
  const width = (tileRows: TileRows) => Math.ceil(outputs / tileOutputs(tileRows, segments));
  return recordPairTiles(options, width, (slab, tileRows) =>
    kernels(weights, tiles).bind(
      recorder,
      {
        x,
        ...weightTensors(NAME, { dtype: weights.dtype, ...slab }),
        pairs: sortedPairs,
        tiles: tileList,
        out,
      },
      {
        constants: matrixConstants(weights, tiles, {
          tileRows,
          segments,
          bias: slab.bias !== undefined,
        }),
        params: {
          first_expert: slab.firstExpert,
          expert_count: slab.expertCount,
          outputs,
          columns,
          rows_padded: paddedRows(outputs, weights),
          segments,
          x_stride: xStride,
          out_stride: outStride,
        },
        cost: ({ step }) => expertCost({ weights, slab }, matrixPairs(step, options), outputs),
      },
    ),
  );
}
