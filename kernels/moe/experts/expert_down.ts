import { rowsOf } from "../../../src/gpu/launch_cost.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import type { RowForm } from "../../../src/gpu/tuning.ts";
import expertSums from "../../common/dot/expert_sums.wgsl?raw";
import expertTile from "../../common/moe/expert_tile.wgsl?raw";
import type { ExpertWeights } from "../../linear/linear_layout.ts";
import { type LaunchForm, rowLanes } from "../../linear/weights/launch_form.ts";
import { expertCost } from "../../linear/weights/weight_cost.ts";
import {
  type InputForm,
  requireMultiplesOf4,
  weightConstants,
  weightKernels,
  weightTensors,
} from "../../linear/weights/weight_kernel.ts";
import { paddedRows } from "../../linear/weights/weight_order.ts";
import source from "./expert_down.wgsl?raw";
import { pairTile, recordTiles, skipsRows, type TileGrids, tileForms } from "./expert_tiles.ts";

const NAME = "moe/expert_down";
const OUTPUTS_PER_LANE = 4;

const kernels = weightKernels({
  name: NAME,
  source: `${source}\n${expertTile}\n${expertSums}`,
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

export interface ExpertDownOptions extends Pick<InputForm, "coded"> {
  /** `[rows * slots, xStride]` f32; what lies beyond `weights.columns` is not used */
  readonly x: Tensor;
  /** A multiple of 4. */
  readonly xStride: number;
  /** Experts of a row: pair `row * slots + slot` is one choice of one row. */
  readonly slots: number;
  /** `[rows * slots]` u32: physical expert of each pair */
  readonly experts: Tensor;
  /** `[rows * slots]` u32: pairs in the order of their experts */
  readonly sortedPairs: Tensor;
  /** vec4u: `(tiles, 0, 0, 0)`, then `(expert, first index in sortedPairs, pairs, 0)` of each tile */
  readonly tiles: Tensor;
  readonly weights: ExpertWeights;
  /** `[rows * slots, outStride]` f32; not the same buffer as `x` */
  readonly out: Tensor;
  readonly outStride: number;
  /** Segments of a row-parallel linear (`segments()` of layout.ts). Default 1. */
  readonly segments?: number;
  /** Pairs that tiles may have at most. Default `pairTile()` alone. */
  readonly tileSizes?: readonly number[];
  /** Grids of launches over tiles, which `sortPairs` is told of. Default: as high as may be needed. */
  readonly grids?: TileGrids;
  /** Whether there are launches over `experts`, not over tiles alone. Default true. */
  readonly unsorted?: boolean;
  /** How launches are shared out; never changes a bit. Default: as the weights' tuning says. */
  readonly forms?: readonly RowForm[];
}

/**
 * `out[p, n] = sum over k of x[p, k] * W[n, k]`, `+ bias[n]` where there is one, with the weights of
 * the expert of pair `p`.
 *
 * Binds the tensors now; the returned function records one launch for each slab, over the tiles
 * where it is told their size, else over `experts`. The bits are the same either way.
 */
export function expertDown(
  recorder: Recorder,
  options: ExpertDownOptions,
): (rows: number, tileSize?: number) => void {
  const { x, xStride, slots, experts, sortedPairs, tiles, weights, out, outStride } = options;
  const { segments = 1, unsorted = true } = options;
  const { columns, rows: outputs } = weights;
  const input = { ...weights, coded: options.coded };
  requireMultiplesOf4(NAME, { xStride });
  const { byPair, byTile } = tileForms(weights, {
    tileSizes: options.tileSizes ?? [pairTile(weights)],
    forms: options.forms,
  });
  const bind = (slab: ExpertWeights["slabs"][number], form: LaunchForm, sorted: boolean) =>
    kernels(input, form).bind(
      recorder,
      {
        x,
        ...weightTensors(NAME, { dtype: weights.dtype, ...slab }),
        pairs: sorted ? sortedPairs : experts,
        tiles: sorted ? tiles : experts,
        out,
      },
      {
        constants: {
          ...weightConstants(input, form, {
            segments,
            together: 4,
            bias: slab.bias !== undefined,
            skips: skipsRows(weights, form),
          }),
          SORTED: sorted,
        },
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
        cost: ({ step }) => expertCost({ weights, slab }, rowsOf(step) * slots, outputs),
      },
    );
  return recordTiles({
    byPair: unsorted
      ? { form: byPair, slabs: weights.slabs.map((slab) => bind(slab, byPair, false)) }
      : undefined,
    byTile: byTile.map((form) => ({
      form,
      slabs: weights.slabs.map((slab) => bind(slab, form, true)),
    })),
    width: (form) => Math.ceil(outputs / (OUTPUTS_PER_LANE * rowLanes(form))),
    slots,
    expertCount: weights.expertCount,
    grids: options.grids,
  });
}
