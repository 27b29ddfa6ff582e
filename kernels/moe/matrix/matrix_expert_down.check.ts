import { defineCheck } from "../../check.ts";
import {
  MATRIX_CONFIGS,
  type MatrixConfigName,
  ofOperands,
} from "../../linear/checks/check_matrix.ts";
import { IN_RUNS } from "../../linear/checks/check_weights.ts";
import { segments } from "../../linear/weights/layout.ts";
import { expertWeights } from "../experts/check_experts.ts";
import check, { matrixOf } from "../experts/expert_down.check.ts";
import {
  MATRIX_EXPERT_TUNINGS,
  MATRIX_TILE_MUTANTS,
  matrixOptions,
  tileOf,
} from "./check_matrix_experts.ts";
import { matrixExpertDown } from "./matrix_expert_down.ts";

type Shape = (typeof check)["cases"][number] & { readonly config: MatrixConfigName };

const strideOf = (columns: number) => Math.ceil(columns / 4) * 4 + 4;

export default defineCheck<Shape>({
  ...check,
  name: "moe/matrix_expert_down",
  cases: [
    // Tiles that are full, short and absent; two segments, the last with a tail.
    {
      config: "f16 16x16x16",
      dtype: "int4",
      groupColumns: 32,
      rows: 27,
      slots: 2,
      slabs: [2, 1],
      columns: 141,
      outputs: 133,
      bias: true,
      ...IN_RUNS,
    },
    {
      config: "f32 8x8x8",
      dtype: "bf16",
      rows: 3,
      slots: 3,
      slabs: [1, 4],
      columns: 65,
      outputs: 5,
    },
    {
      config: "f16 8x16x16",
      dtype: "fp8",
      rows: 2,
      slots: 8,
      slabs: [5, 4],
      columns: 256,
      outputs: 128,
    },
  ],
  tunings: MATRIX_EXPERT_TUNINGS,
  mutants: [
    ...MATRIX_TILE_MUTANTS,
    { name: "outputs beyond the last", replace: "output[i] < params.outputs", with: "true" },
    { name: "one tile of outputs", replace: "group.x * TILE_OUTPUTS", with: "0u" },
  ],

  reference(shape, { x, ...rest }) {
    return ofOperands(MATRIX_CONFIGS[shape.config], x as Float32Array, (rounded) =>
      check.reference(shape, { x: rounded, ...rest }),
    );
  },

  bind(recorder, shape, tensors, tuning) {
    const { config, rows, slots, columns, outputs } = shape;
    const launch = matrixExpertDown(recorder, {
      x: tensors.x!,
      xStride: strideOf(columns),
      slots,
      weights: expertWeights(shape, matrixOf(shape), tensors),
      out: tensors.out!,
      outStride: strideOf(outputs),
      segments: segments(columns),
      ...matrixOptions(config, tuning, tensors),
    });
    return () => launch(rows, tileOf(tuning));
  },
});
