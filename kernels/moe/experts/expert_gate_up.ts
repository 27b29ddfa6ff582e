import { rowsOf } from "../../../src/gpu/launch_cost.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import type { RowForm } from "../../../src/gpu/tuning.ts";
import expertTile from "../../common/moe/expert_tile.wgsl?raw";
import quantizeE4m3 from "../../common/numbers/quantize_e4m3.wgsl?raw";
import gated from "../../common/outputs/gated.wgsl?raw";
import { activationParams, type GatedActivation, SILU } from "../../linear/gated_activation.ts";
import type { ExpertWeights } from "../../linear/linear_layout.ts";
import { type LaunchForm, QUANTIZING_LANES, rowLanes } from "../../linear/weights/launch_form.ts";
import type { ExpertSlab } from "../../linear/weights/layout.ts";
import { expertCost } from "../../linear/weights/weight_cost.ts";
import {
  type InputForm,
  requireMultiplesOf4,
  SCALED_ROWS,
  squaresParams,
  weightConstants,
  weightKernels,
  weightTensors,
} from "../../linear/weights/weight_kernel.ts";
import { gateUpRows, paddedRows } from "../../linear/weights/weight_order.ts";
import { quantize as quantizeRows } from "../../norm/quantize.ts";
import source from "./expert_gate_up.wgsl?raw";
import { pairTile, recordTiles, skipsRows, type TileGrids, tileForms } from "./expert_tiles.ts";

const NAME = "moe/expert_gate_up";
const OUTPUTS_PER_LANE = 2;

const kernels = weightKernels({
  name: NAME,
  source: `${source}\n${SCALED_ROWS}\n${expertTile}\n${gated}\n${quantizeE4m3}`,
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
    "squares",
    "eps",
  ],
});

export interface ExpertGateUpOptions extends InputForm {
  /** `[rows, xStride]` f32; what lies beyond `weights.columns` is not used */
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
  /** Gate rows of each expert, then up rows where `gateUpRows()` of layout.ts says. */
  readonly weights: ExpertWeights;
  /** Outputs, of which each has a gate row and an up row. */
  readonly intermediate: number;
  /** `[rows * slots, outStride]` f32 */
  readonly out: Tensor;
  readonly outStride: number;
  /** Rounds each 128 outputs of a pair to E4M3 with a scale of their own, as FP8 layers expect. */
  readonly quantize: boolean;
  /** Default silu. */
  readonly activation?: GatedActivation;
  /** Pairs that tiles may have at most. Default `pairTile()` alone. */
  readonly tileSizes?: readonly number[];
  /** Grids of launches over tiles, which `sortPairs` is told of. Default: as high as may be needed. */
  readonly grids?: TileGrids;
  /** How launches are shared out; never changes a bit. Default: as the weights' tuning says. */
  readonly forms?: readonly RowForm[];
}

/**
 * `out[p, i] = silu(gate_i . x_r) * (up_i . x_r)`, or another activation of the two: the first half
 * of the MLP of every chosen expert.
 *
 * Binds the tensors now; the returned function records one launch for each slab, over the tiles
 * where it is told their size, else over `experts`. The bits are the same either way.
 */
export function expertGateUp(
  recorder: Recorder,
  options: ExpertGateUpOptions,
): (rows: number, tileSize?: number) => void {
  const { xStride, slots, weights, intermediate, out, outStride, quantize } = options;
  requireMultiplesOf4(NAME, { xStride });
  const { byPair, byTile } = tileForms(weights, {
    tileSizes: options.tileSizes ?? [pairTile(weights)],
    forms: options.forms,
    rowLanes: quantize ? QUANTIZING_LANES : undefined,
  });
  const bindSlabs = (form: LaunchForm, sorted: boolean) =>
    weights.slabs.map((slab) => bindSlab(recorder, options, { slab, form, sorted }));
  // A staged tile is no group of the rounding.
  const rounds = quantize && byTile.some(({ staged }) => staged);
  const round = rounds
    ? quantizeRows(recorder, { x: out, cols: intermediate, stride: outStride })
    : undefined;
  return recordTiles({
    byPair: { form: byPair, slabs: bindSlabs(byPair, false) },
    byTile: byTile.map((form) => ({ form, slabs: bindSlabs(form, true) })),
    width: (form) => Math.ceil(intermediate / (OUTPUTS_PER_LANE * rowLanes(form))),
    slots,
    expertCount: weights.expertCount,
    grids: options.grids,
    after: ({ staged }, rows) => staged && round?.(rows * slots),
  });
}

/** The launch over the experts of a slab, whose pairs are sorted in tiles or are not. */
interface SlabLaunch {
  readonly slab: ExpertSlab;
  readonly form: LaunchForm;
  readonly sorted: boolean;
}

function bindSlab(
  recorder: Recorder,
  options: ExpertGateUpOptions,
  { slab, form, sorted }: SlabLaunch,
) {
  const { x, xStride, slots, experts, sortedPairs, tiles, weights, intermediate } = options;
  const { out, outStride, quantize, activation = SILU } = options;
  const input = { ...weights, coded: options.coded };
  return kernels(input, form).bind(
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
          segments: 1,
          together: 2,
          bias: slab.bias !== undefined,
          skips: skipsRows(weights, form),
        }),
        QUANTIZE: quantize && form.staged !== true,
        CLAMPED: activation.kind === "clamped",
        SORTED: sorted,
      },
      params: {
        slots,
        first_expert: slab.firstExpert,
        expert_count: slab.expertCount,
        outputs: intermediate,
        up_row: gateUpRows(intermediate, weights).upRow,
        columns: weights.columns,
        rows_padded: paddedRows(weights.rows, weights),
        segments: 1,
        x_stride: xStride,
        out_stride: outStride,
        ...activationParams(activation),
        ...squaresParams(NAME, options.squares),
      },
      cost: ({ step }) => {
        const pairs = rowsOf(step) * slots;
        return expertCost({ weights, slab }, pairs, 2 * intermediate);
      },
    },
  );
}
