import { defineCheck } from "../../check.ts";
import {
  MATRIX_CONFIGS,
  type MatrixConfigName,
  ofOperands,
} from "../../linear/checks/check_matrix.ts";
import { IN_RUNS } from "../../linear/checks/check_weights.ts";
import { expertWeights } from "../experts/check_experts.ts";
import check, { matrixOf } from "../experts/expert_gate_up.check.ts";
import {
  MATRIX_EXPERT_TUNINGS,
  MATRIX_TILE_MUTANTS,
  matrixOptions,
  tileOf,
} from "./check_matrix_experts.ts";
import { matrixExpertGateUp } from "./matrix_expert_gate_up.ts";

type Shape = (typeof check)["cases"][number] & { readonly config: MatrixConfigName };

const clamped = { kind: "clamped", alpha: 1.702, limit: 0.9 } as const;
const strideOf = (columns: number) => Math.ceil(columns / 4) * 4 + 4;

export default defineCheck<Shape>({
  ...check,
  name: "moe/matrix_expert_gate_up",
  cases: [
    // Tiles that are full, short and absent; two workgroups of outputs.
    {
      config: "f16 16x16x16",
      dtype: "int4",
      groupColumns: 64,
      rows: 27,
      slots: 2,
      slabs: [2, 1],
      columns: 141,
      intermediate: 69,
      bias: true,
      activation: clamped,
      quantize: false,
      ...IN_RUNS,
    },
    {
      config: "f32 8x8x8",
      dtype: "mxfp4",
      rows: 3,
      slots: 3,
      slabs: [1, 4],
      columns: 65,
      intermediate: 21,
      quantize: false,
    },
    {
      config: "f16 8x16x16",
      dtype: "fp8",
      rows: 2,
      slots: 8,
      slabs: [5, 4],
      columns: 256,
      intermediate: 64,
      quantize: false,
    },
  ],
  tunings: MATRIX_EXPERT_TUNINGS,
  mutants: [
    { name: "every pair has its own x", replace: "/ params.slots * params", with: "* params" },
    ...MATRIX_TILE_MUTANTS,
    { name: "up rows start elsewhere", replace: "* params.up_row", with: "* params.outputs" },
    { name: "an output for each row", replace: "n / 4u * 2u", with: "n / 2u * 2u" },
    { name: "outputs beyond the last", replace: "if valid.y", with: "if true" },
    { name: "one tile of outputs", replace: "group.x * (", with: "0u * (" },
    { name: "the limit is ignored", replace: "min(gate, vec2f(params.limit))", with: "gate" },
    { name: "alpha is 1", replace: "-params.alpha * g", with: "-g" },
  ],

  reference(shape, { x, ...rest }) {
    return ofOperands(MATRIX_CONFIGS[shape.config], x as Float32Array, (rounded) =>
      check.reference(shape, { x: rounded, ...rest }),
    );
  },

  bind(recorder, shape, tensors, tuning) {
    const { config, rows, slots, columns, intermediate, activation } = shape;
    const launch = matrixExpertGateUp(recorder, {
      x: tensors.x!,
      xStride: strideOf(columns),
      slots,
      weights: expertWeights(shape, matrixOf(shape), tensors),
      intermediate,
      out: tensors.out!,
      outStride: strideOf(intermediate),
      ...(activation && { activation }),
      ...matrixOptions(config, tuning, tensors),
    });
    return () => launch(rows, tileOf(tuning));
  },
});
