import { defineCheck } from "../../check.ts";
import {
  emulatedTiles,
  MATRIX_CONFIGS,
  MATRIX_TUNINGS,
  type MatrixConfigName,
  ofOperands,
} from "../checks/check_matrix.ts";
import { IN_RUNS } from "../checks/check_weights.ts";
import check, { weightShape } from "../gate_up.check.ts";
import { matrixGateUp } from "./matrix_gate_up.ts";

type Shape = (typeof check)["cases"][number] & {
  readonly config: MatrixConfigName;
  /** Rows before it are left alone. */
  readonly firstRow: number;
};

const strideOf = (columns: number) => Math.ceil(columns / 4) * 4 + 4;
const clamped = { kind: "clamped", alpha: 1.702, limit: 0.9 } as const;
const base = { quantize: false, scale: 0.1 } as const;

// What the kernel shares with linear/matrix_linear is checked there.
export default defineCheck<Shape>({
  name: "linear/matrix_gate_up",
  cases: [
    // Two workgroups of outputs, the second with an odd number of them.
    {
      ...base,
      config: "f16 16x16x16",
      dtype: "int4",
      groupColumns: 64,
      rows: 4,
      firstRow: 1,
      columns: 141,
      intermediate: 69,
      bias: true,
      activation: clamped,
      ...IN_RUNS,
    },
    {
      ...base,
      config: "f32 8x8x8",
      dtype: "fp8",
      rows: 70,
      firstRow: 2,
      columns: 70,
      intermediate: 64,
    },
    {
      ...base,
      config: "f16 8x16x16",
      dtype: "mxfp4",
      rows: 17,
      firstRow: 0,
      columns: 256,
      intermediate: 128,
    },
  ],
  tunings: MATRIX_TUNINGS,
  exactAcrossTunings: true,
  tolerance: 1e-5,
  bytes: check.bytes,
  flops: ({ rows, firstRow, columns, intermediate }) =>
    4 * (rows - firstRow) * columns * intermediate,
  mutants: [
    { name: "rows start at the first", replace: "params.first_row +", with: "" },
    { name: "rows are read too close", replace: "* params.x_stride", with: "* params.columns" },
    { name: "rows are written too close", replace: "* params.out_stride", with: "* 69u" },
    { name: "rows beyond the last", replace: "out_row < params.rows", with: "true" },
    { name: "one tile of rows", replace: "group.y * TILE_ROWS", with: "0u", case: 1 },
    { name: "one tile of outputs", replace: "group.x * (", with: "0u * (" },
    { name: "outputs beyond the last", replace: "if valid.y", with: "if true" },
    { name: "up rows start elsewhere", replace: "* params.up_row", with: "* params.outputs" },
    { name: "gates in place of ups", replace: "n / 2u % 2u *", with: "0u *" },
    { name: "an output for each row", replace: "n / 4u * 2u", with: "n / 2u * 2u" },
    { name: "the first of two outputs", replace: "+ n % 2u,", with: "," },
    { name: "the bias is dropped", replace: "sums[t] + bias_of(row)", with: "sums[t]" },
    { name: "the limit is ignored", replace: "min(gate, vec2f(params.limit))", with: "gate" },
    { name: "alpha is 1", replace: "-params.alpha * g", with: "-g" },
  ],
  inputs: check.inputs,

  reference(shape, { x, ...weight }) {
    const { out } = ofOperands(MATRIX_CONFIGS[shape.config], x as Float32Array, (rounded) =>
      check.reference(shape, { x: rounded, ...weight }),
    );
    return { out: out!.fill(Number.NaN, 0, shape.firstRow * strideOf(shape.intermediate)) };
  },

  bind(recorder, shape, { x, words, scales, bias, out }, tuning) {
    const { rows, firstRow, columns, intermediate, activation } = shape;
    const matrix = weightShape(shape);
    const launch = matrixGateUp(recorder, {
      x: x!,
      xStride: strideOf(columns),
      weight: {
        ...matrix,
        rowsPadded: matrix.rows,
        words: words!,
        ...(scales && { scales }),
        ...(bias && { bias }),
      },
      tiles: emulatedTiles(MATRIX_CONFIGS[shape.config], tuning),
      intermediate,
      out: out!,
      outStride: strideOf(intermediate),
      ...(activation && { activation }),
    });
    return () => launch(firstRow, rows);
  },
});
