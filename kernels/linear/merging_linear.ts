/**
 * A linear over slices of generated rows that attention left in splits, in one launch with what puts
 * those together.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
import type { BoundKernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import { formOf, formsFor } from "../../src/gpu/row_forms.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { PLAIN_TUNING, type RowForm } from "../../src/gpu/tuning.ts";
import mergedSplits from "../common/attention/merged_splits.wgsl?raw";
import softmax from "../common/attention/online_softmax.wgsl?raw";
import xMerged from "../common/inputs/x_merged.wgsl?raw";
import quantizeE4m3 from "../common/numbers/quantize_e4m3.wgsl?raw";
import outputsPlain from "../common/outputs/outputs_plain.wgsl?raw";
import outputsRounded from "../common/outputs/outputs_rounded.wgsl?raw";
import { lanesOf, ROUNDING_LANES, ROWS_PER_LANE } from "./linear.ts";
import type { LinearWeight } from "./linear_layout.ts";
import source from "./merging_linear.wgsl?raw";
import { type LaunchForm, launchForms, rowLanes } from "./weights/launch_form.ts";
import { BLOCK_COLUMNS } from "./weights/layout.ts";
import { weightCost } from "./weights/weight_cost.ts";
import {
  requireMultiplesOf4,
  weightConstants,
  weightKernels,
  weightTensors,
} from "./weights/weight_kernel.ts";
import { rowsTogether } from "./weights/weight_order.ts";

const NAME = "linear/merging_linear";
const FLOAT_BYTES = 4;
/** Of rows that a workgroup merges: one form for one and one for several keeps pipelines few. */
const MOST_TOKENS = 4;
/** Beside the merged slices and what forms of the launch take. */
const OTHER_BYTES = 512;

const definition = {
  name: NAME,
  buffers: ["partials", "weights", "scales", "rows", "out"],
  params: [
    "rows",
    "outputs",
    "columns",
    "rows_padded",
    "segments",
    "slices",
    "group_rows",
    "out_stride",
    "max_splits",
    "split_length",
  ],
  xVector: xMerged,
} as const;
type Param = (typeof definition.params)[number];

const kernelsWith = (...texts: readonly string[]) =>
  weightKernels({ ...definition, source: [source, softmax, mergedSplits, ...texts].join("\n") });
const plain = kernelsWith(outputsPlain);
const rounded = kernelsWith(outputsRounded, quantizeE4m3);

export interface MergingLinearOptions {
  /** `[rows, maxSplits, groups, 2 + columns]` f32, as attention leaves them for `mergeSplits` */
  readonly partials: Tensor;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** Keys of a split. */
  readonly splitLength: number;
  /** Without a bias. */
  readonly weight: LinearWeight;
  /** Weight rows that are multiplied with the same slice. */
  readonly groupRows: number;
  /** `[rows, outStride]` f32 */
  readonly out: Tensor;
  readonly outStride: number;
  /** Rounds each 128 outputs to E4M3 with a scale of their own. */
  readonly roundOutputs: boolean;
  /** How launches are shared out; never changes a bit. Default: as the weight's tuning says. */
  readonly forms?: readonly RowForm[];
}

/**
 * What `mergeSplits` and then `linear` with groups make of generated rows, bit for bit, in one launch.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows, whose records
 * lie `maxSplits` apart. It is undefined where a workgroup has no room for its slices, or would
 * round outputs of a part of one.
 *
 * @throws {KernelError} when the columns are no multiple of four, or the weight has a bias.
 */
export function mergingLinear(
  recorder: Recorder,
  options: MergingLinearOptions,
): ((rows: number, maxSplits: number) => void) | undefined {
  const { weight, groupRows } = options;
  requireMultiplesOf4(NAME, { columns: weight.columns });
  if (weight.bias !== undefined) throw new KernelError(NAME, "a weight with a bias");
  const slices = workgroupSlices(options);
  if (slices === undefined) return;
  const forms = mergingForms(recorder, options, slices);
  if (forms.length === 0) return;
  const bound = forms.map((form) => {
    const tiles = Math.ceil((slices * groupRows) / (ROWS_PER_LANE * rowLanes(form)));
    const width = Math.ceil(weight.rows / (slices * groupRows)) * tiles;
    return { ...form, width, kernel: bindMerging(recorder, { ...options, form, slices }) };
  });
  return (rows, maxSplits) => {
    const { kernel, width, tokens } = formOf(bound, rows);
    kernel.set("rows", rows);
    kernel.set("max_splits", maxSplits);
    kernel.record(width, Math.ceil(rows / tokens));
  };
}

/** Slices of a workgroup, where its outputs are as many as the rounding wants. */
function workgroupSlices({
  weight,
  groupRows,
  roundOutputs,
}: MergingLinearOptions): number | undefined {
  if (!roundOutputs) return 1;
  const slices = Math.max(BLOCK_COLUMNS / groupRows, 1);
  if (!Number.isInteger(slices) || (slices * groupRows) % BLOCK_COLUMNS !== 0) return;
  return groupRows % (ROWS_PER_LANE * weight.lanes) === 0 ? slices : undefined;
}

/** The form for one row, and the one for most rows of those that there is room for. */
function mergingForms(
  { device }: Recorder,
  { weight, groupRows, roundOutputs, ...options }: MergingLinearOptions,
  slices: number,
): LaunchForm[] {
  const { lanes, columns, dtype, groupColumns = BLOCK_COLUMNS } = weight;
  const room = device.limits.maxComputeWorkgroupStorageSize - OTHER_BYTES;
  const most = ROUNDING_LANES;
  const across = roundOutputs ? most : lanesOf(groupRows, { lanes, most });
  // Slices are short: more invocations than groups of columns would have none.
  const groups = Math.ceil(columns / groupColumns);
  const mostSplit = 2 ** Math.ceil(Math.log2(groups));
  const given = options.forms ?? formsFor(weight.tuning ?? PLAIN_TUNING, dtype);
  const fitting = given.flatMap((form) => {
    const ownBytes = form.tokens * slices * columns * FLOAT_BYTES;
    if (form.tokens > MOST_TOKENS || ownBytes > room) return [];
    const demand = { stages: false, rowLanes: across, ownBytes, bytes: room };
    return launchForms(weight, demand, [{ ...form, split: Math.min(form.split, mostSplit) }]);
  });
  return [...new Set([...fitting.slice(0, 1), ...fitting.slice(-1)])];
}

interface BoundOptions extends MergingLinearOptions {
  readonly form: LaunchForm;
  readonly slices: number;
}

function bindMerging(
  recorder: Recorder,
  { form, slices, ...options }: BoundOptions,
): BoundKernel<Param> {
  const { partials, rows, splitLength, weight, groupRows, out, outStride } = options;
  const { columns } = weight;
  const sliceCount = Math.ceil(weight.rows / groupRows);
  const { weights, scales } = weightTensors(NAME, weight);
  const kernels = options.roundOutputs ? rounded : plain;
  return kernels(weight, form).bind(
    recorder,
    { partials, weights, scales, rows, out },
    {
      constants: {
        ...weightConstants(weight, form, {
          segments: 1,
          bias: false,
          xByRun: slices > 1,
          together: rowsTogether(weight, groupRows),
        }),
        SLICES: slices,
        SLICE_VECTORS: columns / 4,
      },
      params: {
        outputs: weight.rows,
        columns,
        rows_padded: weight.rowsPadded,
        segments: 1,
        slices: sliceCount,
        group_rows: groupRows,
        out_stride: outStride,
        split_length: splitLength,
      },
      cost: ({ param, step }) => {
        const count = param("rows");
        let splits = 0;
        for (let r = 0; r < count; r++) {
          splits += Math.ceil((step.rows[4 * r + 1]! + 1) / splitLength);
        }
        const { bytes, flops } = weightCost(weight, count, weight.rows);
        const floats = splits * sliceCount * (2 + columns);
        return { bytes: bytes + floats * FLOAT_BYTES, flops: flops + 4 * floats };
      },
    },
  );
}
