import { defineCheck } from "../../check.ts";
import { dot, IN_RUNS, outputsByColumns, randomRows } from "../../linear/checks/check_weights.ts";
import { segments } from "../../linear/weights/layout.ts";
import { storedBytes } from "../../linear/weights/weight_cost.ts";
import {
  chosenAtMost,
  EXPERT_TUNINGS,
  type ExpertShape,
  expertBiases,
  expertWeights,
  layoutOf,
  randomExperts,
  randomPairs,
  TILE_MUTANTS,
  tileOptions,
  tileSizeOf,
  unpackExperts,
} from "./check_experts.ts";
import { expertDown } from "./expert_down.ts";

interface Shape extends ExpertShape {
  readonly columns: number;
  readonly outputs: number;
}

export const matrixOf = ({ groupColumns, ...shape }: Shape) => ({
  ...outputsByColumns(shape),
  ...(groupColumns && { groupColumns }),
});
const strideOf = (columns: number) => Math.ceil(columns / 4) * 4 + 4;

export default defineCheck<Shape>({
  name: "moe/expert_down",
  cases: [
    // Tiles that are full, short and absent; three segments, the last with a tail.
    { dtype: "fp8", rows: 27, slots: 2, slabs: [2, 1], columns: 269, outputs: 37 },
    { dtype: "bf16", rows: 3, slots: 3, slabs: [1, 4], columns: 65, outputs: 5 },
    {
      dtype: "int4",
      groupColumns: 32,
      rows: 7,
      slots: 2,
      slabs: [2, 1],
      columns: 269,
      outputs: 37,
      bias: true,
      ...IN_RUNS,
    },
    {
      dtype: "mxfp4",
      rows: 3,
      slots: 3,
      slabs: [1, 4],
      columns: 269,
      outputs: 37,
      bias: true,
      rowsPerLane: 2,
    },
    { dtype: "int8", rows: 3, slots: 3, slabs: [1, 4], columns: 130, outputs: 5 },
    { dtype: "fp8", rows: 1, slots: 8, slabs: [5, 4], columns: 256, outputs: 512 },
  ],
  tunings: EXPERT_TUNINGS,
  exactAcrossTunings: true,
  tolerance: 5e-6,
  bytes: (shape) => storedBytes(matrixOf(shape)) * chosenAtMost(shape),
  flops: ({ rows, slots, columns, outputs }) => 2 * rows * slots * columns * outputs,
  mutants: [
    ...TILE_MUTANTS,
    { name: "a segment is lost", replace: "= (*waiting)[level][t] + total[t]", with: "= total[t]" },
    { name: "rows are read too close", replace: "* params.x_stride", with: "* params.columns" },
    {
      name: "rows are written too close",
      replace: "* params.out_stride",
      with: "* params.outputs",
    },
    {
      name: "outputs beyond the last are written",
      replace: "output[i] < params.outputs",
      with: "true",
    },
  ],

  inputs(shape, random) {
    const { rows, slots, columns } = shape;
    return {
      x: randomRows({ rows: rows * slots, columns, stride: strideOf(columns) }, random),
      ...randomExperts(shape, matrixOf(shape), random),
      ...randomPairs(shape, random),
    };
  },

  reference(shape, inputs) {
    const { rows, slots, columns, outputs } = shape;
    const weights = unpackExperts(shape, matrixOf(shape), inputs);
    const biases = expertBiases(shape, matrixOf(shape), inputs);
    const outStride = strideOf(outputs);
    const pairs = rows * slots;
    const out = new Float64Array(pairs * outStride).fill(Number.NaN);
    for (let pair = 0; pair < pairs; pair++) {
      const expert = inputs.experts![pair]!;
      const weight = weights[expert]!;
      for (let n = 0; n < outputs; n++) {
        const row = { weight, columns, row: n };
        const sum = dot(row, inputs.x!, pair * strideOf(columns));
        out[pair * outStride + n] = sum + biases[expert]![n]!;
      }
    }
    return { out };
  },

  bind(recorder, shape, tensors, tuning) {
    const { sorted = 0 } = tuning;
    const { rows, slots, columns, outputs } = shape;
    const launch = expertDown(recorder, {
      x: tensors.x!,
      xStride: strideOf(columns),
      slots,
      experts: tensors.experts!,
      sortedPairs: tensors.sorted_pairs!,
      weights: {
        ...layoutOf(tuning, recorder.device),
        ...expertWeights(shape, matrixOf(shape), tensors),
      },
      out: tensors.out!,
      outStride: strideOf(outputs),
      segments: segments(columns),
      ...tileOptions(tuning, tensors),
    });
    return () => launch(rows, sorted === 1 ? tileSizeOf(tuning) : undefined);
  },
});
