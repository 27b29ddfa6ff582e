/**
 * The forms of a launch over weights: those of the adapter's tuning, cut down to what fits, and the
 * one that a number of rows takes. All give the same bits.
 *
 * @module
 */
import type { BoundKernel } from "../../src/gpu/kernel.ts";
import { formOf, formsFor, PLAIN_TUNING, type RowForm } from "../../src/gpu/tuning.ts";
import type { LinearLayout, WeightDtype } from "./layout.ts";

/** A form as it is compiled; `workgroup` is a multiple of `split` times the weight's lanes. */
export type LaunchForm = RowForm;

/** WebGPU's default limits, of which something is left to the kernels themselves. */
const MOST_INVOCATIONS = 256;
const SHARED_BYTES = 16384 - 512;
const VECTOR_BYTES = 16;

export interface FormRoom {
  readonly lanes: number;
  /** Invocations with weight rows of their own, where the kernel says how many. */
  readonly rowLanes?: number | undefined;
  /** Bytes of workgroup memory that the kernel needs for itself. Default 0. */
  readonly ownBytes?: number;
}

/** The form with as few invocations to a weight row as there is room for. */
export function fitForm(form: RowForm, { lanes, rowLanes, ownBytes = 0 }: FormRoom): LaunchForm {
  const across = rowLanes ?? Math.max(form.workgroup / form.split, lanes);
  const fits = (split: number) =>
    across * split <= MOST_INVOCATIONS &&
    across * split * (form.tokens + 1) * VECTOR_BYTES <= SHARED_BYTES - ownBytes;
  let split = form.split;
  while (split > 1 && !fits(split)) split /= 2;
  return { ...form, split, workgroup: across * split };
}

/** Invocations of a workgroup with weight rows of their own. */
export function rowLanes({ workgroup, split }: LaunchForm): number {
  return workgroup / split;
}

/** The forms that weights of this layout and dtype are launched in. */
export function launchForms(
  weight: LinearLayout & { readonly dtype: WeightDtype },
  room: Omit<FormRoom, "lanes"> = {},
  forms: readonly RowForm[] = formsFor(weight.tuning ?? PLAIN_TUNING, weight.dtype),
): LaunchForm[] {
  return forms.map((form) => fitForm(form, { lanes: weight.lanes, ...room }));
}

/** Invocations whose outputs are one group of the rounding to E4M3: 128, two of each. */
export const QUANTIZING_LANES = 64;

/** What a launch over rows needs to know. */
export interface RowLaunch<P extends string> {
  readonly forms: readonly LaunchForm[];
  readonly bind: (form: LaunchForm) => BoundKernel<P>;
  /** What a launch over one row takes when it is not the first form as `bind` gives it. */
  readonly one?:
    | {
        readonly form: LaunchForm;
        readonly kernel: BoundKernel<P>;
        /** Default: as `width` says. */
        readonly width?: number;
      }
    | undefined;
  /** Workgroups along the outputs. */
  readonly width: (form: LaunchForm) => number;
}

/** Binds every form; the returned function records the one that so many rows take. */
export function recordRows<P extends string>(
  launch: RowLaunch<P | "rows">,
): (rows: number) => void {
  const { forms, bind, one, width } = launch;
  // The first form is bound a second time only where it is the only one.
  const others = one !== undefined && forms.length > 1 ? forms.slice(1) : forms;
  const bound = others.map((form) => ({ ...form, kernel: bind(form) }));
  return (rows) => {
    if (rows === 1 && one !== undefined) {
      one.kernel.set("rows", 1);
      one.kernel.record(one.width ?? width(one.form));
      return;
    }
    const taken = formOf(bound, rows);
    taken.kernel.set("rows", rows);
    taken.kernel.record(width(taken), Math.ceil(rows / taken.tokens));
  };
}
