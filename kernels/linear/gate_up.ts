import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import gated from "../common/gated.wgsl?raw";
import quantizeE4m3 from "../common/quantize_e4m3.wgsl?raw";
import source from "./gate_up.wgsl?raw";
import { activationParams, type GatedActivation, SILU } from "./gated_activation.ts";
import { gateUpRows, type LinearWeight } from "./layout.ts";
import {
  DEFAULT_TOKENS,
  requireMultiplesOf4,
  weightConstants,
  weightKernels,
  weightTensors,
} from "./weight_kernel.ts";

const NAME = "linear/gate_up";
const OUTPUTS_PER_LANE = 2;
/** 128 outputs: one group of the rounding to E4M3. */
const QUANTIZING_WORKGROUP = 64;

const kernels = weightKernels({
  name: NAME,
  source: `${source}\n${gated}\n${quantizeE4m3}`,
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
  ],
});

export interface GateUpOptions {
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
  /** Activation rows of an invocation when there are several; never changes a bit. Default 4. */
  readonly tokens?: number;
}

/**
 * `out[r, i] = silu(gate_i . x_r) * (up_i . x_r)`, or another activation of the two: the first half
 * of a gated MLP.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows. A row's bits
 * depend on that row alone.
 */
export function gateUp(recorder: Recorder, options: GateUpOptions): (rows: number) => void {
  const { x, xStride, weight, intermediate, out, outStride, quantize } = options;
  const { activation = SILU, tokens = DEFAULT_TOKENS } = options;
  requireMultiplesOf4(NAME, { xStride });
  const workgroupSize = quantize ? QUANTIZING_WORKGROUP : weight.lanes;
  const bind = (rowsPerLane: number) =>
    kernels(weight).bind(
      recorder,
      { x, ...weightTensors(NAME, weight), out },
      {
        constants: {
          ...weightConstants(weight, {
            tokens: rowsPerLane,
            segments: 1,
            bias: weight.bias !== undefined,
          }),
          WORKGROUP_SIZE: workgroupSize,
          QUANTIZE: quantize,
          CLAMPED: activation.kind === "clamped",
        },
        params: {
          outputs: intermediate,
          up_row: gateUpRows(intermediate, weight.lanes).upRow,
          columns: weight.columns,
          rows_padded: weight.rowsPadded,
          segments: 1,
          x_stride: xStride,
          out_stride: outStride,
          ...activationParams(activation),
        },
      },
    );
  const one = bind(1);
  const several = tokens === 1 ? one : bind(tokens);
  const width = Math.ceil(intermediate / (OUTPUTS_PER_LANE * workgroupSize));
  return (rows) => {
    const bound = rows === 1 ? one : several;
    bound.set("rows", rows);
    bound.record(width, Math.ceil(rows / (rows === 1 ? 1 : tokens)));
  };
}
