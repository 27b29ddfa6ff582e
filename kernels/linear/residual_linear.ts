/**
 * A linear whose outputs are added to the residual stream, and that writes what the next norm makes
 * of it: `write_normed.wgsl`.
 *
 * @module
 */
import type { Recorder } from "../../src/gpu/recorder.ts";
import { formOf } from "../../src/gpu/row_forms.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import topLevelStream from "../common/dot/top_level_stream.wgsl?raw";
import quantizeE4m3 from "../common/numbers/quantize_e4m3.wgsl?raw";
import outputsPlain from "../common/outputs/outputs_plain.wgsl?raw";
import writeNormed from "../common/outputs/write_normed.wgsl?raw";
import { type NormedRows, normedParams } from "../norm/normed_rows.ts";
import {
  bindLinear,
  type LinearOptions,
  linearText,
  linearWidth,
  ROUNDING_LANES,
  ROWS_PER_LANE,
} from "./linear.ts";
import bindings from "./residual_linear.wgsl?raw";
import {
  fewForms,
  type LaunchForm,
  launchForms,
  type RecordRows,
  recordRows,
  rowLanes,
  rowsOf,
  stageBytes,
} from "./weights/launch_form.ts";
import { requireMultiplesOf4, TREE_LEVELS, weightKernels } from "./weights/weight_kernel.ts";

const text = linearText(bindings, outputsPlain, writeNormed, quantizeE4m3);
const kernels = weightKernels({
  ...text,
  buffers: [...text.buffers, "norm_weight", "normed"] as const,
  topLevel: topLevelStream,
});

/** Invocations of a workgroup with weight rows of their own whose outputs of any rows it can keep. */
const MOST_ROW_LANES = 64;

function narrowed(form: LaunchForm): LaunchForm {
  if (form.staged === true) return form;
  return { ...form, workgroup: Math.min(rowLanes(form), MOST_ROW_LANES) * form.split };
}

/** The residual stream, and what comes after a block that adds to it. */
export interface Residual {
  /** `[rows, stride]` f32 */
  readonly hidden: Tensor;
  readonly stride: number;
  /** `[columns]` f32: of the next norm */
  readonly weight: Tensor;
  readonly normed: NormedRows;
}

export interface ResidualLinearOptions
  extends Pick<LinearOptions, "x" | "xStride" | "weight" | "segments" | "forms"> {
  readonly residual: Residual;
  /** Whether outputs take the place of the rows, in place of being added. Default false. */
  readonly replaces?: boolean;
}

/** Bytes of the outputs of a workgroup's rows, and of what is largest in each. */
const streamBytes = (form: LaunchForm) => 4 * form.tokens * (ROWS_PER_LANE * rowLanes(form) + 1);

/**
 * What `linear` and then `addNorm` make of rows that leave their scale, bit for bit, in one launch.
 *
 * Binds the tensors now. `adds` says of which numbers of rows: not those that a staged form would
 * take for which this device has no room. `addsAll` says that there are no others.
 */
export function residualLinear(
  recorder: Recorder,
  { residual, replaces = false, ...options }: ResidualLinearOptions,
): { readonly record: RecordRows; readonly addsAll: boolean; adds(rows: number): boolean } {
  const { x, xStride, weight } = options;
  const { hidden, stride, weight: normWeight, normed } = residual;
  const rounds = normed.rounded !== undefined;
  requireMultiplesOf4("linear/linear", { xStride });
  const mostRows = rowsOf(x, xStride);
  const all = launchForms(weight, { mostRows }, options.forms);
  const { maxComputeWorkgroupStorageSize: bytes } = recorder.device.limits;
  const staging = { bytes, ownBytes: streamBytes };
  const rowLanes = rounds ? ROUNDING_LANES : undefined;
  const own = launchForms(weight, { staging, mostRows, rowLanes }, options.forms);
  const stages = own.some(({ staged }) => staged === true);
  const adds = (rows: number) => stages || formOf(all, rows).staged !== true;
  return {
    record: recordRows({
      weight,
      forms: fewForms(weight, own.map(narrowed)),
      bind: (form) =>
        bindLinear(
          recorder,
          kernels,
          {
            ...options,
            form,
            out: hidden,
            outStride: stride,
            constants: {
              ROUNDED: rounds,
              ...(replaces && { ADDS: false }),
              // One pipeline for any number of segments. Staged forms have a level beside these.
              LEVELS: form.staged === true ? TREE_LEVELS - 1 : TREE_LEVELS,
              ...(form.staged === true && { STAGE_BYTES: stageBytes(staging, form) }),
            },
            params: normedParams(normed),
          },
          { norm_weight: normWeight, normed: normed.tensor },
        ),
      width: (form) => linearWidth(weight.rows, weight.rows, form),
    }),
    addsAll: stages || all.every(({ staged }) => staged !== true),
    adds,
  };
}
