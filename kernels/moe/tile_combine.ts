import { rowsOf } from "../../src/gpu/launch_cost.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import expertSums from "../common/expert_sums.wgsl?raw";
import expertTile from "../common/expert_tile.wgsl?raw";
import quantizeE4m3 from "../common/quantize_e4m3.wgsl?raw";
import writeNormed from "../common/write_normed.wgsl?raw";
import { linearWidth, ROUNDING_LANES } from "../linear/linear.ts";
import { expertCost } from "../linear/weight_cost.ts";
import {
  requireMultiplesOf4,
  weightConstants,
  weightKernels,
  weightTensors,
} from "../linear/weight_kernel.ts";
import { paddedRows } from "../linear/weight_order.ts";
import { normedParams } from "../norm/normed_rows.ts";
import { type ExpertCombineOptions, pairsAndWeights, requireOneSlab } from "./expert_combine.ts";
import { PAIR_TILE, tileForms } from "./expert_tiles.ts";
import source from "./tile_combine.wgsl?raw";

const NAME = "moe/tile_combine";

const kernels = weightKernels({
  name: NAME,
  source: [source, expertTile, expertSums, writeNormed, quantizeE4m3].join("\n"),
  buffers: [
    "x",
    "weights",
    "scales",
    "bias",
    "pairs",
    "tiles",
    "outputs",
    "out",
    "norm_weight",
    "normed",
  ],
  params: [
    "rows",
    "first_expert",
    "expert_count",
    "outputs",
    "columns",
    "rows_padded",
    "segments",
    "x_stride",
    "outputs_stride",
    "out_stride",
    "slots",
    "slot_weights",
    "normed_stride",
    "normed_rounded",
    "normed_squares",
  ],
});
const BUFFERS = 10;

export interface TileCombineOptions extends Omit<ExpertCombineOptions, "experts"> {
  /** `[rows * slots]` u32: pairs in the order of their experts; in front of `slotWeights` in its buffer */
  readonly sortedPairs: Tensor;
  /**
   * vec4u: `(tiles, 0, 0, 0)`, then `(expert, first index in sortedPairs, pairs, 0)` of each tile, of
   * at most `PAIR_TILE` pairs
   */
  readonly tiles: Tensor;
  /** `[rows * slots, outputsStride]` f32, overwritten; not the same buffer as `x` */
  readonly outputs: Tensor;
  readonly outputsStride: number;
}

/**
 * What `expertCombine` makes of rows whose pairs are sorted, bit for bit, in one launch.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows. Undefined where
 * the device binds too few buffers to a kernel.
 *
 * @throws {KernelError} when there are several slabs, or the weights are not behind the pairs.
 */
export function tileCombine(
  recorder: Recorder,
  options: TileCombineOptions,
): ((rows: number) => void) | undefined {
  const { x, xStride, slots, sortedPairs, tiles, outputs, weights, residual } = options;
  const { slotWeights, segments = 1 } = options;
  const { hidden, stride, weight: normWeight, normed } = residual;
  const { columns, rows: outputCount } = weights;
  if (recorder.device.limits.maxStorageBuffersPerShaderStage < BUFFERS) return undefined;
  const slab = requireOneSlab(NAME, weights);
  const input = { ...weights, coded: options.coded };
  requireMultiplesOf4(NAME, { xStride });
  const rounds = normed.rounded !== undefined;
  const { byTile } = tileForms(weights, {
    tileSizes: [PAIR_TILE],
    forms: options.forms,
    rowLanes: rounds ? ROUNDING_LANES : undefined,
  });
  const [form] = byTile;
  const bound = kernels(input, form!).bind(
    recorder,
    {
      x,
      ...weightTensors(NAME, { dtype: weights.dtype, ...slab }),
      pairs: pairsAndWeights(NAME, sortedPairs, slotWeights),
      tiles,
      outputs,
      ...{ out: hidden, norm_weight: normWeight, normed: normed.tensor },
    },
    {
      constants: {
        ...weightConstants(input, form!, { segments, bias: slab.bias !== undefined }),
        ROUNDED: rounds,
      },
      params: {
        first_expert: slab.firstExpert,
        expert_count: slab.expertCount,
        outputs: outputCount,
        columns,
        rows_padded: paddedRows(outputCount, weights),
        segments,
        x_stride: xStride,
        outputs_stride: options.outputsStride,
        out_stride: stride,
        slots,
        slot_weights: (slotWeights.offset - sortedPairs.offset) / 4,
        ...normedParams(normed),
      },
      cost: ({ step }) => expertCost({ weights, slab }, rowsOf(step) * slots, outputCount),
    },
  );
  const width = linearWidth(outputCount, outputCount, form!);
  return (rows) => {
    bound.set("rows", rows);
    bound.record(width);
  };
}
