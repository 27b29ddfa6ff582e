import { KernelError } from "../../src/errors.ts";
import type { BindOptions, BoundKernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { RowForm } from "../../src/gpu/tuning.ts";
import quantizeE4m3 from "../common/numbers/quantize_e4m3.wgsl?raw";
import outputsPlain from "../common/outputs/outputs_plain.wgsl?raw";
import outputsRounded from "../common/outputs/outputs_rounded.wgsl?raw";
import writeSums from "../common/outputs/write_sums.wgsl?raw";
import source from "./linear.wgsl?raw";
import type { LinearWeight } from "./linear_layout.ts";
import { tilesOf } from "./matrix_class.ts";
import {
  type LaunchForm,
  launchForms,
  type RecordRows,
  recordRows,
  rowLanes,
  rowsOf,
} from "./weights/launch_form.ts";
import { BLOCK_COLUMNS } from "./weights/layout.ts";
import { weightCost } from "./weights/weight_cost.ts";
import {
  type InputForm,
  requireMultiplesOf4,
  SCALED_ROWS,
  squaresParams,
  type WeightKernels,
  weightConstants,
  weightKernels,
  weightTensors,
} from "./weights/weight_kernel.ts";
import { rowsTogether } from "./weights/weight_order.ts";

const NAME = "linear/linear";
/** Outputs of an invocation. */
export const ROWS_PER_LANE = 4;
/** Invocations with rows of their own whose outputs are a group of the rounding. */
export const ROUNDING_LANES = BLOCK_COLUMNS / ROWS_PER_LANE;

const definition = {
  name: NAME,
  buffers: ["x", "weights", "scales", "bias", "out"],
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
    "squares",
    "eps",
    "normed_stride",
    "normed_rounded",
    "normed_squares",
  ],
} as const;

/** The kernel's text with `parts`, among them one of the files write_*.wgsl. */
export const linearText = (...parts: readonly string[]) => ({
  ...definition,
  source: [source, ...parts].join("\n"),
});
type LinearParam = (typeof definition.params)[number];

// Apart, because what a kernel has in workgroup memory costs a barrier, used or not.
const plain = weightKernels(linearText(outputsPlain, writeSums, SCALED_ROWS));
const rounded = weightKernels(linearText(outputsRounded, writeSums, SCALED_ROWS, quantizeE4m3));

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
  /**
   * Rounds each 128 outputs to E4M3 with a scale of their own. Groups of outputs are of a multiple
   * of four times the weight's lanes. Not where matrices multiply the rows. Default false.
   */
  readonly roundOutputs?: boolean;
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
  const { x, xStride, weight, groups, coded, roundOutputs = false } = options;
  const groupRows = groups?.rows ?? weight.rows;
  if (roundOutputs && prompts !== undefined) {
    throw new KernelError(NAME, "rounded outputs in class mma128");
  }
  if (always && prompts !== undefined) return (rows) => prompts(0, rows);
  requireMultiplesOf4(NAME, { xStride, groupStride: groups?.xStride ?? 0 });
  if (coded && groups !== undefined) throw new KernelError(NAME, "codes of slices");
  if (options.squares !== undefined && groups !== undefined) {
    throw new KernelError(NAME, "scaled slices");
  }
  if (roundOutputs && groupRows < weight.rows && groupRows % (ROWS_PER_LANE * weight.lanes) !== 0) {
    throw new KernelError(NAME, `groups of ${groupRows} outputs cannot be rounded`);
  }
  // Whole numbers have no order to keep: codes have no staged forms. Nor is a staged tile a group.
  const demand = { stages: !(coded || roundOutputs), mostRows: rowsOf(x, xStride) };
  const rowLanes = roundOutputs ? ROUNDING_LANES : undefined;
  return recordRows({
    weight,
    prompts,
    forms: launchForms(weight, { ...demand, rowLanes }, options.forms),
    bind: (form) => bindLinear(recorder, roundOutputs ? rounded : plain, { ...options, form }),
    width: (form) => linearWidth(weight.rows, roundOutputs ? weight.rows : groupRows, form),
  });
}

type BoundBuffer = (typeof definition.buffers)[number];
interface BoundOptions
  extends Omit<LinearOptions, "forms">,
    Pick<BindOptions<LinearParam>, "constants" | "cost" | "params"> {
  readonly form: LaunchForm;
}

/** Binds one form of the kernel, made of whatever texts; `tensors` are those of further bindings. */
export function bindLinear<B extends string = never>(
  recorder: Recorder,
  kernels: WeightKernels<BoundBuffer | B, LinearParam>,
  { form, constants, params, cost, ...options }: BoundOptions,
  tensors = {} as Readonly<Record<B, Tensor>>,
): BoundKernel<LinearParam> {
  const { x, xStride, weight, out, outStride, outColumn = 0, segments = 1, groups } = options;
  const input = { ...weight, coded: options.coded };
  const groupRows = groups?.rows ?? weight.rows;
  // Workgroups of rounded outputs go on from group to group.
  const xByRun = options.roundOutputs === true && groupRows % BLOCK_COLUMNS !== 0;
  return kernels(input, form).bind(
    recorder,
    { x, ...weightTensors(NAME, weight), out, ...tensors } as Record<BoundBuffer | B, Tensor>,
    {
      constants: {
        ...weightConstants(input, form, {
          segments,
          bias: weight.bias !== undefined,
          xByRun,
          together: rowsTogether(weight, groupRows),
        }),
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
        group_rows: groupRows,
        group_stride: groups?.xStride ?? 0,
        first_tile: 0,
        ...squaresParams(NAME, options.squares),
        ...params,
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

/** Invocations, a power of two, that so many outputs keep busy: at most `most`. */
export function lanesOf(
  outputs: number,
  { lanes, most }: { readonly lanes: number; readonly most: number },
): number {
  const runs = Math.ceil(outputs / (ROWS_PER_LANE * lanes));
  return Math.min(most, 2 ** Math.ceil(Math.log2(runs)) * lanes);
}
