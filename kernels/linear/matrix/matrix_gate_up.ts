import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import quantizeE4m3 from "../../common/numbers/quantize_e4m3.wgsl?raw";
import gated from "../../common/outputs/gated.wgsl?raw";
import { quantize as quantizeRows } from "../../norm/quantize.ts";
import { activationParams, type GatedActivation, SILU } from "../gated_activation.ts";
import { type RecordRange, rowsOf } from "../weights/launch_form.ts";
import type { PlacedWeight } from "../weights/layout.ts";
import { weightCost } from "../weights/weight_cost.ts";
import { requireMultiplesOf4, weightTensors } from "../weights/weight_kernel.ts";
import { gateUpRows } from "../weights/weight_order.ts";
import source from "./matrix_gate_up.wgsl?raw";
import { matrixConstants, matrixKernels, recordTileRows, tileOutputs } from "./matrix_kernel.ts";
import type { MatrixTiles, TileRows } from "./matrix_tiles.ts";

const NAME = "linear/matrix_gate_up";

const kernels = matrixKernels({
  name: NAME,
  source: [source, gated, quantizeE4m3].join("\n"),
  buffers: ["x", "weights", "scales", "bias", "out"],
  params: [
    "rows",
    "first_row",
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

export interface MatrixGateUpOptions {
  /** `[rows, xStride]` f32; what lies beyond `weight.columns` is not used */
  readonly x: Tensor;
  /** A multiple of 4. */
  readonly xStride: number;
  /** Gate rows, then up rows where `gateUpRows()` of layout.ts says. */
  readonly weight: PlacedWeight;
  readonly tiles: MatrixTiles;
  /** Outputs, of which each has a gate row and an up row. */
  readonly intermediate: number;
  /** `[rows, outStride]` f32; not the same buffer as `x` */
  readonly out: Tensor;
  readonly outStride: number;
  /** Default silu. */
  readonly activation?: GatedActivation;
  /**
   * Rounds each 128 outputs to E4M3 with a scale of their own, in a launch behind: a tile is no group
   * of them. Default false.
   */
  readonly quantize?: boolean;
}

/**
 * `out[r, i] = silu(gate_i . x_r) * (up_i . x_r)`, or another activation of the two, in numeric class
 * mma128.
 *
 * Binds the tensors now; the returned function records one launch over a range of rows, once a
 * submit. A row's bits depend on that row alone.
 */
export function matrixGateUp(recorder: Recorder, options: MatrixGateUpOptions): RecordRange {
  const { x, xStride, weight, tiles, intermediate, out, outStride, activation = SILU } = options;
  const { quantize = false } = options;
  requireMultiplesOf4(NAME, { xStride });
  const width = (tileRows: TileRows) => Math.ceil(intermediate / (tileOutputs(tileRows) / 2));
  const halves = recordTileRows({ width, mostRows: rowsOf(x, xStride) }, (tileRows) =>
    kernels(weight, tiles).bind(
      recorder,
      { x, ...weightTensors(NAME, weight), out },
      {
        constants: {
          ...matrixConstants(weight, tiles, {
            tileRows,
            segments: 1,
            bias: weight.bias !== undefined,
          }),
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
        },
        cost: ({ param }) =>
          weightCost(weight, param("rows") - param("first_row"), 2 * intermediate),
      },
    ),
  );
  if (!quantize) return halves;
  const round = quantizeRows(recorder, { x: out, cols: intermediate, stride: outStride });
  return (first, end) => {
    halves(first, end);
    round(end - first, first);
  };
}
