import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import expertTile from "../../common/moe/expert_tile.wgsl?raw";
import quantizeE4m3 from "../../common/numbers/quantize_e4m3.wgsl?raw";
import gated from "../../common/outputs/gated.wgsl?raw";
import { activationParams, type GatedActivation, SILU } from "../../linear/gated_activation.ts";
import { matrixConstants, matrixKernels, tileOutputs } from "../../linear/matrix/matrix_kernel.ts";
import type { TileRows } from "../../linear/matrix/matrix_tiles.ts";
import { expertCost } from "../../linear/weights/weight_cost.ts";
import { requireMultiplesOf4, weightTensors } from "../../linear/weights/weight_kernel.ts";
import { gateUpRows, paddedRows } from "../../linear/weights/weight_order.ts";
import source from "./matrix_expert_gate_up.wgsl?raw";
import {
  type MatrixExpertOptions,
  matrixPairs,
  type RecordPairs,
  recordPairTiles,
} from "./matrix_pairs.ts";

const NAME = "moe/matrix_expert_gate_up";

const kernels = matrixKernels({
  name: NAME,
  source: [source, expertTile, gated, quantizeE4m3].join("\n"),
  buffers: ["x", "weights", "scales", "bias", "pairs", "tiles", "out"],
  params: [
    "slots",
    "first_expert",
    "expert_count",
    "outputs",
    "up_row",
    "columns",
    "rows_padded",
    "segments",
    "x_stride",
    "out_stride",
    "alpha",
    "limit",
  ],
});

/** The weights are gate rows of each expert, then up rows where `gateUpRows()` of layout.ts says. */
export interface MatrixExpertGateUpOptions extends MatrixExpertOptions {
  /** `[rows, xStride]` f32; what lies beyond `weights.columns` is not used */
  readonly x: Tensor;
  /** Outputs, of which each has a gate row and an up row. */
  readonly intermediate: number;
  /** Default silu. */
  readonly activation?: GatedActivation;
}

/**
 * `out[p, i] = silu(gate_i . x_r) * (up_i . x_r)`, or another activation of the two, in numeric class
 * mma128: the first half of the MLP of every chosen expert.
 *
 * Binds the tensors now; the returned function records one launch for each slab.
 */
export function matrixExpertGateUp(
  recorder: Recorder,
  options: MatrixExpertGateUpOptions,
): RecordPairs {
  const { x, xStride, slots, sortedPairs, tileList, weights, tiles, intermediate } = options;
  const { out, outStride, activation = SILU } = options;
  const { columns } = weights;
  requireMultiplesOf4(NAME, { xStride });
  const width = (tileRows: TileRows) => Math.ceil(intermediate / (tileOutputs(tileRows) / 2));
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
        constants: {
          ...matrixConstants(weights, tiles, {
            tileRows,
            segments: 1,
            bias: slab.bias !== undefined,
          }),
          CLAMPED: activation.kind === "clamped",
        },
        params: {
          slots,
          first_expert: slab.firstExpert,
          expert_count: slab.expertCount,
          outputs: intermediate,
          up_row: gateUpRows(intermediate, weights).upRow,
          columns,
          rows_padded: paddedRows(weights.rows, weights),
          segments: 1,
          x_stride: xStride,
          out_stride: outStride,
          ...activationParams(activation),
        },
        cost: ({ step }) =>
          expertCost({ weights, slab }, matrixPairs(step, options), 2 * intermediate),
      },
    ),
  );
}
