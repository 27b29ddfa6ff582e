import { KernelError } from "../../../src/errors.ts";
import { rowsOf, type StepArrays } from "../../../src/gpu/launch_cost.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import type { RowForm } from "../../../src/gpu/tuning.ts";
import expertSums from "../../common/dot/expert_sums.wgsl?raw";
import expertTile from "../../common/moe/expert_tile.wgsl?raw";
import quantizeE4m3 from "../../common/numbers/quantize_e4m3.wgsl?raw";
import writeNormed from "../../common/outputs/write_normed.wgsl?raw";
import { linearWidth, ROUNDING_LANES } from "../../linear/linear.ts";
import type { ExpertWeights } from "../../linear/linear_layout.ts";
import type { Residual } from "../../linear/residual_linear.ts";
import { type LaunchForm, launchForms } from "../../linear/weights/launch_form.ts";
import { expertCost } from "../../linear/weights/weight_cost.ts";
import {
  type InputForm,
  requireMultiplesOf4,
  weightConstants,
  weightKernels,
  weightTensors,
} from "../../linear/weights/weight_kernel.ts";
import { paddedRows } from "../../linear/weights/weight_order.ts";
import { normedParams } from "../../norm/normed_rows.ts";
import source from "./expert_combine.wgsl?raw";
import { skipsRows } from "./expert_tiles.ts";

const NAME = "moe/expert_combine";

/** What kernels that combine experts join to their own text, and the params they begin with. */
export const COMBINE_TEXT: string = [expertTile, expertSums, writeNormed, quantizeE4m3].join("\n");
export const COMBINE_PARAMS = [
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
] as const;

const kernels = weightKernels({
  name: NAME,
  source: `${source}\n${COMBINE_TEXT}`,
  buffers: ["x", "weights", "scales", "bias", "pairs", "out", "norm_weight", "normed"],
  params: COMBINE_PARAMS,
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
  const { weights, residual, experts } = options;
  requireMultiplesOf4(NAME, { xStride: options.xStride });
  const demand = { rowLanes: combineLanes(residual) };
  const [form] = launchForms(weights, demand, options.forms);
  const { input, tensors, width, ...launch } = combineLaunch(NAME, experts, form!, options);
  const bound = kernels(input, form!).bind(recorder, tensors, launch);
  return (rows) => {
    bound.set("rows", rows);
    bound.record(width, rows);
  };
}

/** Invocations with outputs of their own, where their number is given. */
export function combineLanes({ normed }: Residual): number | undefined {
  return normed.rounded === undefined ? undefined : ROUNDING_LANES;
}

/**
 * What kernels that combine experts have in common.
 *
 * @param pairs A list of pairs, behind which, in the same buffer, the weights of slots are.
 */
export function combineLaunch(
  kernel: string,
  pairs: Tensor,
  form: LaunchForm,
  options: Omit<ExpertCombineOptions, "experts">,
) {
  const { x, xStride, slots, slotWeights, weights, residual, segments = 1 } = options;
  const { hidden, stride, weight: normWeight, normed } = residual;
  const { columns, rows: outputs } = weights;
  const [slab, ...others] = weights.slabs;
  if (others.length > 0) throw new KernelError(kernel, "experts in several slabs");
  const { buffer, offset } = pairs;
  if (slotWeights.buffer !== buffer || slotWeights.offset < offset) {
    throw new KernelError(kernel, "weights of slots that are not behind the pairs");
  }
  const size = slotWeights.offset + slotWeights.size - offset;
  const input = { ...weights, coded: options.coded };
  return {
    input,
    width: linearWidth(outputs, outputs, form),
    tensors: {
      x,
      ...weightTensors(kernel, { dtype: weights.dtype, ...slab! }),
      pairs: { buffer, offset, size },
      out: hidden,
      norm_weight: normWeight,
      normed: normed.tensor,
    },
    constants: {
      ...weightConstants(input, form, {
        segments,
        together: 4,
        bias: slab!.bias !== undefined,
        skips: skipsRows(weights, form),
      }),
      ROUNDED: normed.rounded !== undefined,
    },
    params: {
      first_expert: slab!.firstExpert,
      expert_count: slab!.expertCount,
      outputs,
      columns,
      rows_padded: paddedRows(outputs, weights),
      segments,
      x_stride: xStride,
      out_stride: stride,
      slots,
      slot_weights: (slotWeights.offset - offset) / 4,
      ...normedParams(normed),
    },
    cost: ({ step }: { readonly step: StepArrays }) =>
      expertCost({ weights, slab: slab! }, rowsOf(step) * slots, outputs),
  };
}
