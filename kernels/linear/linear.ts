import { KernelError } from "../../src/errors.ts";
import type { BindOptions, BoundKernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { RowForm } from "../../src/gpu/tuning.ts";
import outputsPlain from "../common/outputs_plain.wgsl?raw";
import outputsRounded from "../common/outputs_rounded.wgsl?raw";
import quantizeE4m3 from "../common/quantize_e4m3.wgsl?raw";
import writeSums from "../common/write_sums.wgsl?raw";
import xNormed from "../common/x_normed.wgsl?raw";
import {
  type LaunchForm,
  launchForms,
  type RecordRows,
  recordRows,
  rowLanes,
  rowsOf,
} from "./launch_form.ts";
import { BLOCK_COLUMNS, type LinearWeight } from "./layout.ts";
import source from "./linear.wgsl?raw";
import { tilesOf } from "./matrix_tiles.ts";
import { normBytes, normConstants, type RowNorm } from "./row_norm.ts";
import { weightCost } from "./weight_cost.ts";
import {
  type InputForm,
  requireMultiplesOf4,
  type WeightKernels,
  weightConstants,
  weightKernels,
  weightTensors,
} from "./weight_kernel.ts";

const NAME = "linear/linear";
/** Outputs of an invocation. */
export const ROWS_PER_LANE = 4;
/** Invocations with rows of their own whose outputs are a group of the rounding. */
export const ROUNDING_LANES = BLOCK_COLUMNS / ROWS_PER_LANE;

const definition = {
  name: NAME,
  buffers: ["x", "weights", "scales", "bias", "norm_weight", "out"],
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
    "first_tile",
    "residual",
    "eps",
  ],
} as const;

/** The kernel's text with `parts`, among them one of the files common/write_*.wgsl. */
export const linearText = (...parts: readonly string[]) => ({
  ...definition,
  source: [source, ...parts].join("\n"),
});
type LinearParam = (typeof definition.params)[number];
type LinearKernels = WeightKernels<(typeof definition.buffers)[number], LinearParam>;

// Apart, because what a kernel has in workgroup memory costs a barrier, used or not.
const plain = weightKernels(linearText(outputsPlain, writeSums));
const normed = weightKernels({
  ...linearText(outputsPlain, writeSums, quantizeE4m3),
  xVector: xNormed,
});
const rounded = weightKernels(linearText(outputsRounded, writeSums, quantizeE4m3));

/** Normed input and rounded outputs do not meet in any layer. */
function kernelsFor({ norm, roundOutputs }: OneRow) {
  if (roundOutputs === true) return rounded;
  return norm === undefined ? plain : normed;
}

export interface OneRow {
  /** `[1, xStride]` f32: multiplied in place of `x`, normed and rounded first where there is `norm` */
  readonly x?: Tensor;
  readonly norm?: RowNorm | undefined;
  /** `[1, outStride]` f32: the result is added to it, and `out` is left alone. */
  readonly residual?: Tensor;
  /**
   * Rounds each 128 outputs to E4M3 with a scale of their own. Groups of outputs are of a multiple
   * of four times the weight's lanes. Not together with `norm`.
   */
  readonly roundOutputs?: boolean;
}

export interface LinearOptions extends InputForm {
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
  /** What is different for a generated row alone: it may do what else has launches of its own. */
  readonly oneRow?: OneRow | undefined;
  /** Segments of a row-parallel linear (`segments()` of layout.ts). Default 1. */
  readonly segments?: number;
  /** Whose rows it is for: kernels of the other phase's class are not bound. Default both. */
  readonly phase?: "prefill" | "decode";
  /** Gives each run of `rows` outputs its own slice of `x`, as per-head projections need. */
  readonly groups?: {
    /** Weight rows of a group. */
    readonly rows: number;
    /** Elements between the slices of neighbouring groups: a multiple of 4. */
    readonly xStride: number;
  };
  /** How launches are shared out; never changes a bit. Default: as the weight's tuning says. */
  readonly forms?: readonly RowForm[];
}

/**
 * `out[r, n] = sum over k of x[r, k] * W[n, k]`, `+ bias[n]` where the weight has one.
 *
 * Binds the tensors now; the returned function records one launch for each numeric class among the
 * rows. A row's bits depend on that row and its class alone.
 */
export function linear(recorder: Recorder, options: LinearOptions): RecordRows {
  const tiles = tilesOf({ ...options.weight, coded: options.coded });
  const { phase } = options;
  const always = tiles?.decode === true || phase === "prefill";
  const prompts =
    always || phase === undefined
      ? tiles?.kernels.linear(recorder, { ...options, tiles })
      : undefined;
  if (always && prompts !== undefined) {
    if (options.oneRow !== undefined) throw new KernelError(NAME, "one row apart in class mma128");
    return (rows) => prompts(0, rows);
  }
  const { x, xStride, weight, groups, oneRow, coded } = options;
  const groupRows = groups?.rows ?? weight.rows;
  requireMultiplesOf4(NAME, { xStride, groupStride: groups?.xStride ?? 0 });
  const bind = (form: LaunchForm, special: OneRow = {}) =>
    bindLinear(recorder, kernelsFor(special), { ...options, form, special });
  const width = (form: LaunchForm) => linearWidth(weight.rows, groupRows, form);
  const rounds = oneRow?.roundOutputs === true;
  if (coded && (groups !== undefined || oneRow?.norm !== undefined)) {
    throw new KernelError(NAME, "codes of slices, or behind a norm");
  }
  if (rounds && oneRow.norm !== undefined) {
    throw new KernelError(NAME, "normed rows whose outputs are rounded");
  }
  if (rounds && groupRows < weight.rows && groupRows % (ROWS_PER_LANE * weight.lanes) !== 0) {
    throw new KernelError(NAME, `groups of ${groupRows} outputs cannot be rounded`);
  }
  const [oneForm] = launchForms(weight, oneRoom(weight, oneRow), options.forms);
  return recordRows({
    prompts,
    // Whole numbers have no order to keep: codes have no staged forms.
    forms: launchForms(weight, { stages: !coded, mostRows: rowsOf(x, xStride) }, options.forms),
    bind,
    one: oneRow && {
      form: oneForm!,
      kernel: bind(oneForm!, oneRow),
      width: rounds ? linearWidth(weight.rows, weight.rows, oneForm!) : width(oneForm!),
    },
    width,
  });
}

interface BoundOptions extends LinearOptions, Pick<BindOptions<LinearParam>, "constants" | "cost"> {
  readonly form: LaunchForm;
  readonly special?: OneRow;
}

/** Binds one form of the kernel, made of whatever texts. */
export function bindLinear(
  recorder: Recorder,
  kernels: LinearKernels,
  { form, special = {}, constants, cost, ...options }: BoundOptions,
): BoundKernel<LinearParam> {
  const { x, xStride, weight, out, outStride, outColumn = 0, segments = 1, groups } = options;
  const { norm, residual } = special;
  const input = { ...weight, coded: options.coded };
  return kernels(input, form).bind(
    recorder,
    {
      x: special.x ?? x,
      ...weightTensors(NAME, weight),
      norm_weight: norm?.weight ?? x,
      out: residual ?? out,
    },
    {
      constants: {
        ...weightConstants(input, form, { segments, bias: weight.bias !== undefined }),
        ...normConstants(norm, weight.columns),
        ...constants,
      },
      params: {
        outputs: weight.rows,
        columns: weight.columns,
        rows_padded: weight.rowsPadded,
        segments,
        x_stride: xStride,
        out_stride: outStride,
        out_column: outColumn,
        group_rows: groups?.rows ?? weight.rows,
        group_stride: groups?.xStride ?? 0,
        first_tile: 0,
        residual: residual === undefined ? 0 : 1,
        eps: norm?.eps ?? 0,
      },
      cost: cost ?? (({ param }) => weightCost(weight, param("rows"), weight.rows)),
    },
  );
}

/** Workgroups along the outputs, each of which stays within one group of them. */
export function linearWidth(outputs: number, groupRows: number, form: LaunchForm): number {
  const ofGroup = Math.ceil(groupRows / (ROWS_PER_LANE * rowLanes(form)));
  return Math.ceil(outputs / groupRows) * ofGroup;
}

/** Most invocations with rows of their own of a workgroup that norms its input: that is to serve many. */
const NORMING_LANES = 64;

function oneRoom(weight: LinearWeight, oneRow: OneRow | undefined) {
  if (oneRow?.roundOutputs === true) return { rowLanes: ROUNDING_LANES };
  if (oneRow?.norm === undefined) return {};
  const ownBytes = normBytes(oneRow.norm, weight.columns);
  const { rows, lanes } = weight;
  return { ownBytes, rowLanes: lanesOf(rows, { lanes, most: NORMING_LANES }) };
}

/** Invocations, a power of two, that so many outputs keep busy: at most `most`. */
export function lanesOf(
  outputs: number,
  { lanes, most }: { readonly lanes: number; readonly most: number },
): number {
  const runs = Math.ceil(outputs / (ROWS_PER_LANE * lanes));
  return Math.min(most, 2 ** Math.ceil(Math.log2(runs)) * lanes);
}
