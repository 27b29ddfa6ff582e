/**
 * The forms of a launch over weights: those of the adapter's tuning, cut down to what fits, and the
 * one that a number of rows takes. All give the same bits.
 *
 * @module
 */
import type { BoundKernel } from "../../../src/gpu/kernel.ts";
import { formOf, formsFor } from "../../../src/gpu/row_forms.ts";
import { leastStageBytes, stagedFits, stagedTokenLanes } from "../../../src/gpu/staged_room.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { PLAIN_TUNING, type RowForm, type Tuning } from "../../../src/gpu/tuning.ts";
import { BLOCK_COLUMNS, type WeightDtype, type WeightLayout } from "./layout.ts";

/** A form as it is compiled; `workgroup` is a multiple of `split` times the weight's lanes. */
export type LaunchForm = RowForm;

/** WebGPU's default limits, of which something is left to the kernels themselves. */
const MOST_INVOCATIONS = 256;
const SHARED_BYTES = 16384 - 512;
const VECTOR_BYTES = 16;
const WORD_BYTES = 4;
/** Of workgroup memory: what kernels have beside what is counted. */
const OTHER_BYTES = 512;
/** Rows of a staged form, at least. */
const LEAST_STAGED = 16;

export interface FormRoom {
  readonly lanes: number;
  /** Invocations with weight rows of their own, where the kernel says how many. */
  readonly rowLanes?: number | undefined;
  /** Bytes of workgroup memory that the kernel needs for itself. Default 0. */
  readonly ownBytes?: number;
  /** Bytes of workgroup memory that there are. Default: what every device has. */
  readonly bytes?: number;
}

/** The form with as few invocations to a weight row as there is room for. */
export function fitForm(
  form: RowForm,
  { lanes, rowLanes, ownBytes = 0, bytes = SHARED_BYTES }: FormRoom,
): LaunchForm {
  const across = rowLanes ?? Math.max(form.workgroup / form.split, lanes);
  const fits = (split: number) =>
    across * split <= MOST_INVOCATIONS &&
    across * split * (form.tokens + 1) * VECTOR_BYTES <= bytes - ownBytes;
  let split = form.split;
  while (split > 1 && !fits(split)) split /= 2;
  return { ...form, split, workgroup: across * split };
}

/** Activation rows of an invocation of a staged form that multiplies halves. */
const HALF_TOKENS = 2;

/** Of half as many rows a staged form takes so much of the time. */
const HALF_STAGED = 0.6;

/**
 * The staged form with whole runs of lanes, of more rows an invocation where there is no room for so many;
 * undefined where there is none for them either. With `staging` it may be one of fewer rows.
 */
function fitStaged(
  form: RowForm,
  { lanes, rowLanes: wanted }: FormRoom,
  staging?: Staging,
): LaunchForm | undefined {
  const across = (staging && wanted) ?? Math.max(rowLanes(form), lanes);
  const fitted = { ...form, workgroup: across * tokenLanes(form) };
  if (stagedFits(fitted, lanes, staging && roomToStage(staging, fitted))) return fitted;
  // More rows an invocation are fewer invocations.
  const { ownTokens, ...wider } = form;
  if (ownTokens !== undefined) {
    const found = fitStaged(wider, { lanes, rowLanes: wanted }, staging);
    if (found !== undefined) return found;
  }
  const tokens = form.tokens / 2;
  if (staging === undefined || tokens < LEAST_STAGED) return;
  const half = { ...form, tokens, workgroup: form.workgroup / 2, cost: form.cost * HALF_STAGED };
  return fitStaged(half, { lanes, rowLanes: wanted }, staging);
}

const roomToStage = ({ bytes, ownBytes }: Staging, form: LaunchForm) =>
  bytes - OTHER_BYTES - ownBytes(form);

/** Bytes of workgroup memory that such a form stages in, at most: a GPU runs few workgroups of more. */
export function stageBytes(staging: Staging, form: LaunchForm): number {
  return Math.max(leastStageBytes(form), Math.min(SHARED_BYTES, roomToStage(staging, form)));
}

/** Invocations of a workgroup with the same weight rows and activation rows of their own. */
export function tokenLanes(form: LaunchForm): number {
  return form.staged === true ? stagedTokenLanes(form) : 1;
}

/** Invocations of a workgroup with weight rows of their own. */
export function rowLanes(form: LaunchForm): number {
  return form.workgroup / (form.split * tokenLanes(form));
}

/** What staged forms need of a kernel that keeps results of theirs in workgroup memory. */
export interface Staging {
  /** Of workgroup memory, on this device. */
  readonly bytes: number;
  /** For the results. */
  readonly ownBytes: (form: LaunchForm) => number;
}

/** What a launch over weights asks of its forms beside room. */
export interface FormDemand extends Omit<FormRoom, "lanes"> {
  /** Whether the kernel has staged forms. Default true. */
  readonly stages?: boolean;
  /** Staged forms have `rowLanes` too then, and what room there is on the device. */
  readonly staging?: Staging | undefined;
  /** Rows of a launch, at most: forms that none would take are left out. Default: any number. */
  readonly mostRows?: number;
}

type FormWeight = WeightLayout & { readonly dtype: WeightDtype };

const alike = (one: LaunchForm | undefined, other: LaunchForm) =>
  one?.tokens === other.tokens && one.staged === other.staged;

/** The forms that weights of this layout and dtype are launched in. */
export function launchForms(
  weight: FormWeight,
  { stages = true, mostRows, staging, ...room }: FormDemand = {},
  forms: readonly RowForm[] = formsFor(weight.tuning ?? PLAIN_TUNING, weight.dtype),
): LaunchForm[] {
  const { lanes } = weight;
  // Sums of halves take registers beside those of f32.
  const narrows = weight.halfProducts === true && weight.dtype !== "f32";
  const fitted = forms.map((form) => {
    if (form.staged !== true) return fitForm(form, { lanes, ...room });
    const own = narrows ? { ...form, ownTokens: HALF_TOKENS } : form;
    return stages ? fitStaged(own, { lanes, ...room }, staging) : undefined;
  });
  const different = fitted.filter(
    (form, i) => form !== undefined && !fitted.slice(0, i).some((one) => alike(one, form)),
  );
  return different.length === 0
    ? []
    : takenForms(different as LaunchForm[], mostRows, weight.tuning);
}

/** Rows of so many words that a tensor has room for; the last need not be whole, as in parts of rows. */
export function rowsOf({ size }: Tensor, stride: number): number {
  return Math.max(Math.ceil(size / (WORD_BYTES * stride)), 1);
}

/** Rows from which on a further row takes the largest form, whatever it is. */
const MANY_ROWS = 256;

/**
 * The first form, and those that some number of rows takes; where an adapter wants many invocations,
 * which depends on a matrix's outputs, those that rows fill by half.
 */
export function takenForms<F extends Pick<RowForm, "tokens" | "cost">>(
  forms: readonly F[],
  mostRows = MANY_ROWS,
  tuning?: Pick<Tuning, "fill">,
): F[] {
  if (tuning?.fill !== undefined) {
    return forms.filter(({ tokens }, i) => i === 0 || tokens < 2 * mostRows);
  }
  const counts = Array.from({ length: Math.min(mostRows, MANY_ROWS) }, (_, i) => i + 1);
  const taken = new Set(counts.map((count) => formOf(forms, count)));
  return forms.filter((form, i) => i === 0 || taken.has(form));
}

/** Numbers of a matrix that is read so soon that few forms do. */
const FEW_WEIGHTS = 2 ** 18;

/**
 * Of a small matrix the first of the forms that are not staged, and the last: to compile the others
 * takes longer than they ever save.
 */
export function fewForms<F extends Pick<RowForm, "staged">>(
  { rows, columns }: { readonly rows: number; readonly columns: number },
  forms: readonly F[],
): readonly F[] {
  if (rows * columns > FEW_WEIGHTS) return forms;
  const last = forms.findLast(({ staged }) => staged !== true);
  return forms.filter((form, i) => i === 0 || form === last || form.staged === true);
}

/** Invocations whose outputs are one group of the rounding to E4M3: 128, two of each. */
export const QUANTIZING_LANES = 64;

/** A matrix, as far as it says how long a form takes for it. */
type MatrixInUse = Pick<WeightLayout, "tuning"> & {
  readonly columns: number;
  readonly groupColumns?: number | undefined;
};

/**
 * The form as a matrix takes it: with the passes of `width` workgroups that keep the adapter busy, and
 * more time where fewer groups of columns are there than invocations to share them.
 */
export function formInUse<F extends LaunchForm>(
  { tuning, columns, groupColumns = BLOCK_COLUMNS }: MatrixInUse,
  form: F,
  width: number,
): F & { readonly leastPasses: number } {
  const { fill } = tuning ?? {};
  if (fill === undefined) return { ...form, leastPasses: 0 };
  const idle = Math.max(form.split / Math.ceil(columns / groupColumns), 1);
  return { ...form, cost: form.cost * idle, leastPasses: fill / (width * form.workgroup) };
}

/** What a launch over rows needs to know. */
export interface RowLaunch<P extends string> {
  readonly forms: readonly LaunchForm[];
  readonly bind: (form: LaunchForm) => BoundKernel<P>;
  /** Workgroups along the outputs. */
  readonly width: (form: LaunchForm) => number;
  /** Whose tuning says how many invocations keep the adapter busy. */
  readonly weight: MatrixInUse;
  /** Called when a launch over several rows was recorded in this form. */
  readonly after?: (form: LaunchForm, rows: number) => void;
  /** Records prompt rows, where those are of a numeric class of their own. */
  readonly prompts?: RecordRange | undefined;
}

/** Records launches over rows `[first, end)`. */
export type RecordRange = (first: number, end: number) => void;

/**
 * Records launches over `rows` rows, of which the first `decodeRows`, by default all, are of
 * generated tokens and the others of prompts.
 */
export type RecordRows = (rows: number, decodeRows?: number) => void;

/** Binds every form; the returned function records the one that so many rows take. */
export function recordRows<P extends string>(launch: RowLaunch<P | "rows">): RecordRows {
  const { forms, bind, width, after, prompts, weight } = launch;
  const bound = forms.map((form) => ({
    ...formInUse(weight, form, width(form)),
    kernel: bind(form),
  }));
  return (rows, decodeRows = rows) => {
    const own = prompts === undefined ? rows : decodeRows;
    if (own > 0) {
      const taken = formOf(bound, own);
      taken.kernel.set("rows", own);
      taken.kernel.record(width(taken), Math.ceil(own / taken.tokens));
      after?.(taken, own);
    }
    if (own < rows) prompts!(own, rows);
  };
}
