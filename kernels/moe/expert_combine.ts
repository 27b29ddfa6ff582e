import { KernelError } from "../../src/errors.ts";
import { rowsOf } from "../../src/gpu/launch_cost.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { RowForm } from "../../src/gpu/tuning.ts";
import expertSums from "../common/expert_sums.wgsl?raw";
import expertTile from "../common/expert_tile.wgsl?raw";
import quantizeE4m3 from "../common/quantize_e4m3.wgsl?raw";
import writeNormed from "../common/write_normed.wgsl?raw";
import { launchForms } from "../linear/launch_form.ts";
import type { ExpertSlab, ExpertWeights } from "../linear/layout.ts";
import { linearWidth, ROUNDING_LANES } from "../linear/linear.ts";
import type { Residual } from "../linear/residual_linear.ts";
import { expertCost } from "../linear/weight_cost.ts";
import {
  type InputForm,
  requireMultiplesOf4,
  weightConstants,
  weightKernels,
  weightTensors,
} from "../linear/weight_kernel.ts";
import { paddedRows } from "../linear/weight_order.ts";
import { normedParams } from "../norm/normed_rows.ts";
import source from "./expert_combine.wgsl?raw";

const NAME = "moe/expert_combine";

const kernels = weightKernels({
  name: NAME,
  source: [source, expertTile, expertSums, writeNormed, quantizeE4m3].join("\n"),
  buffers: ["x", "weights", "scales", "bias", "pairs", "out", "norm_weight", "normed"],
  params: [
    "rows",
    "first_expert",
    "expert_count",
    "outputs",
    "columns",
    "rows_padded",
    "segments",
    "x_stride",
    "out_stride",
    "slots",
    "slot_weights",
    "normed_stride",
    "normed_rounded",
    "normed_squares",
  ],
});

export interface ExpertCombineOptions extends Pick<InputForm, "coded"> {
  /** `[rows * slots, xStride]` f32; what lies beyond `weights.columns` is not used */
  readonly x: Tensor;
  /** A multiple of 4. */
  readonly xStride: number;
  /** Experts of a row: pair `row * slots + slot` is one choice of one row. */
  readonly slots: number;
  /** `[rows * slots]` u32: physical expert of each pair */
  readonly experts: Tensor;
  /** `[rows * slots]` f32; behind `experts` in the same buffer */
  readonly slotWeights: Tensor;
  /** In one slab. */
  readonly weights: ExpertWeights;
  readonly residual: Residual;
  /** Segments of a row-parallel linear (`segments()` of layout.ts). Default 1. */
  readonly segments?: number;
  /** How launches are shared out; never changes a bit. Default: as the weights' tuning says. */
  readonly forms?: readonly RowForm[];
}

/**
 * What `expertDown` and then `addNorm` make of rows that leave their scale, bit for bit, in one
 * launch: the weighted sum of each row's experts is added to the residual stream.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 *
 * @throws {KernelError} when there are several slabs, or the weights are not behind the experts.
 */
export function expertCombine(
  recorder: Recorder,
  options: ExpertCombineOptions,
): (rows: number) => void {
  const { x, xStride, slots, experts, slotWeights, weights, residual, segments = 1 } = options;
  const { hidden, stride, weight: normWeight, normed } = residual;
  const { columns, rows: outputs } = weights;
  const slab = requireOneSlab(NAME, weights);
  const input = { ...weights, coded: options.coded };
  requireMultiplesOf4(NAME, { xStride });
  const rounds = normed.rounded !== undefined;
  const demand = { rowLanes: rounds ? ROUNDING_LANES : undefined };
  const [form] = launchForms(weights, demand, options.forms);
  const bound = kernels(input, form!).bind(
    recorder,
    {
      x,
      ...weightTensors(NAME, { dtype: weights.dtype, ...slab }),
      pairs: pairsAndWeights(NAME, experts, slotWeights),
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
        outputs,
        columns,
        rows_padded: paddedRows(outputs, weights),
        segments,
        x_stride: xStride,
        out_stride: stride,
        slots,
        slot_weights: (slotWeights.offset - experts.offset) / 4,
        ...normedParams(normed),
      },
      cost: ({ step }) => expertCost({ weights, slab }, rowsOf(step) * slots, outputs),
    },
  );
  const width = linearWidth(outputs, outputs, form!);
  return (rows) => {
    bound.set("rows", rows);
    bound.record(width, rows);
  };
}

/** The slab that has all experts. */
export function requireOneSlab(kernel: string, { slabs }: ExpertWeights): ExpertSlab {
  const [slab, ...others] = slabs;
  if (others.length > 0) throw new KernelError(kernel, "experts in several slabs");
  return slab!;
}

/** A list of pairs, and behind it in the same buffer the weights of slots, as one tensor. */
export function pairsAndWeights(kernel: string, pairs: Tensor, slotWeights: Tensor): Tensor {
  const { buffer, offset } = pairs;
  if (slotWeights.buffer !== buffer || slotWeights.offset < offset) {
    throw new KernelError(kernel, "weights of slots that are not behind the pairs");
  }
  return { buffer, offset, size: slotWeights.offset + slotWeights.size - offset };
}
