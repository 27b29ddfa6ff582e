import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { RowForm } from "../../src/gpu/tuning.ts";
import quantizeE4m3 from "../common/numbers/quantize_e4m3.wgsl?raw";
import gated from "../common/outputs/gated.wgsl?raw";
import { quantize as quantizeRows } from "../norm/quantize.ts";
import source from "./gate_up.wgsl?raw";
import { activationParams, type GatedActivation, SILU } from "./gated_activation.ts";
import type { LinearWeight } from "./linear_layout.ts";
import { tilesOf } from "./matrix_class.ts";
import {
  type FormDemand,
  fewForms,
  type LaunchForm,
  launchForms,
  QUANTIZING_LANES,
  type RecordRows,
  recordRows,
  rowLanes,
  rowsOf,
  stageBytes,
} from "./weights/launch_form.ts";
import { weightCost } from "./weights/weight_cost.ts";
import {
  type InputForm,
  requireMultiplesOf4,
  SCALED_ROWS,
  squaresParams,
  weightConstants,
  weightKernels,
  weightTensors,
} from "./weights/weight_kernel.ts";
import { gateUpRows } from "./weights/weight_order.ts";

const NAME = "linear/gate_up";
const OUTPUTS_PER_LANE = 2;

const kernels = weightKernels({
  name: NAME,
  source: `${source}\n${SCALED_ROWS}\n${gated}\n${quantizeE4m3}`,
  buffers: ["x", "weights", "scales", "bias", "out"],
  params: [
    "rows",
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

export interface GateUpOptions extends InputForm {
  /** `[rows, xStride]` f32; what lies beyond `weight.columns` is not used */
  readonly x: Tensor;
  /** A multiple of 4. */
  readonly xStride: number;
  /** Gate rows, then up rows where `gateUpRows()` of layout.ts says. */
  readonly weight: LinearWeight;
  /** Outputs, of which each has a gate row and an up row. */
  readonly intermediate: number;
  /** `[rows, outStride]` f32; not the same buffer as `x` */
  readonly out: Tensor;
  readonly outStride: number;
  /** Rounds each 128 outputs of a row to E4M3 with a scale of their own, as FP8 layers expect. */
  readonly quantize: boolean;
  /** Default silu. */
  readonly activation?: GatedActivation;
  /** How launches are shared out; never changes a bit. Default: as the weight's tuning says. */
  readonly forms?: readonly RowForm[];
}

/**
 * `out[r, i] = silu(gate_i . x_r) * (up_i . x_r)`, or another activation of the two: the first half
 * of a gated MLP.
 *
 * Binds the tensors now; the returned function records one launch for each numeric class among the
 * rows, and one more to round those of class mma128. A row's bits depend on that row and its class
 * alone.
 */
export function gateUp(recorder: Recorder, options: GateUpOptions): RecordRows {
  const tiles = tilesOf({ ...options.weight, coded: options.coded });
  const prompts = tiles?.kernels.gateUp(recorder, { ...options, tiles });
  if (tiles?.decode === true) return (rows) => prompts!(0, rows);
  const { x, xStride, weight, intermediate, out, outStride, quantize } = options;
  const { activation = SILU, coded } = options;
  const input = { ...weight, coded };
  requireMultiplesOf4(NAME, { xStride });
  const rounds = (form: LaunchForm) => quantize && rowLanes(form) === QUANTIZING_LANES;
  const staging = { bytes: recorder.device.limits.maxComputeWorkgroupStorageSize, ownBytes };
  const bind = (form: LaunchForm) =>
    kernels(input, form).bind(
      recorder,
      { x, ...weightTensors(NAME, weight), out },
      {
        constants: {
          ...weightConstants(input, form, {
            segments: 1,
            bias: weight.bias !== undefined,
            together: 2,
          }),
          QUANTIZE: rounds(form),
          ...(form.staged === true && rounds(form) && { STAGE_BYTES: stageBytes(staging, form) }),
          CLAMPED: activation.kind === "clamped",
        },
        params: {
          outputs: intermediate,
          up_row: gateUpRows(intermediate, weight).upRow,
          columns: weight.columns,
          rows_padded: weight.rowsPadded,
          segments: 1,
          x_stride: xStride,
          out_stride: outStride,
          ...activationParams(activation),
          ...squaresParams(NAME, options.squares),
        },
        cost: ({ param }) => weightCost(weight, param("rows"), 2 * intermediate),
      },
    );
  const demand = { stages: !coded, mostRows: rowsOf(x, xStride) };
  const forms = fewForms(
    weight,
    gateUpForms(weight, { ...demand, staging, quantize }, options.forms),
  );
  const round = forms.every((form) => !quantize || rounds(form))
    ? undefined
    : quantizeRows(recorder, { x: out, cols: intermediate, stride: outStride });
  return recordRows({
    weight,
    prompts,
    forms,
    bind,
    after: (form, rows) => rounds(form) || round?.(rows),
    width: (form) => Math.ceil(intermediate / (OUTPUTS_PER_LANE * rowLanes(form))),
  });
}

/** Bytes of what is largest in each row. */
const ownBytes = ({ tokens }: LaunchForm) => 4 * tokens;

/** Where outputs are rounded, staged forms whose outputs are one group of it, if there is one. */
function gateUpForms(
  weight: LinearWeight,
  { quantize, staging, ...demand }: FormDemand & { readonly quantize: boolean },
  forms?: readonly RowForm[],
): LaunchForm[] {
  if (!quantize) return launchForms(weight, demand, forms);
  const room = { ...demand, rowLanes: QUANTIZING_LANES };
  const own = launchForms(weight, { ...room, staging }, forms);
  return own.some(({ staged }) => staged === true) ? own : launchForms(weight, room, forms);
}
