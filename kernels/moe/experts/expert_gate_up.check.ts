import { defineCheck } from "../../check.ts";
import {
  randomSquaredRows,
  scaleOf,
  squaredStride,
  squaresOf,
} from "../../linear/checks/check_squares.ts";
import {
  checkOrder,
  dot,
  gatedRow,
  IN_RUNS,
  outputsByColumns,
  quantizeRow,
  randomRows,
} from "../../linear/checks/check_weights.ts";
import type { GatedActivation } from "../../linear/gated_activation.ts";
import { storedBytes } from "../../linear/weights/weight_cost.ts";
import { gateUpRows } from "../../linear/weights/weight_order.ts";
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
import { expertGateUp } from "./expert_gate_up.ts";

interface Shape extends ExpertShape {
  readonly columns: number;
  readonly intermediate: number;
  readonly quantize: boolean;
  readonly activation?: GatedActivation;
  /** Whether rows are still to be scaled, by sums of squares behind their columns. */
  readonly squares?: boolean;
}

/** A limit that some gates and ups of about 1 exceed. */
const clamped = { kind: "clamped", alpha: 1.702, limit: 0.9 } as const;
export const matrixOf = ({ groupColumns, intermediate, ...shape }: Shape) => ({
  ...outputsByColumns({ ...shape, outputs: gateUpRows(intermediate, checkOrder(shape)).rows }),
  ...(groupColumns && { groupColumns }),
});
const strideOf = (columns: number) => Math.ceil(columns / 4) * 4 + 4;
const xStrideOf = ({ columns, squares }: Shape) =>
  squares ? squaredStride(columns) : strideOf(columns);

export default defineCheck<Shape>({
  name: "moe/expert_gate_up",
  cases: [
    // Tiles that are full, short and absent; two groups of outputs; two blocks with a tail; rows still
    // to be scaled.
    {
      dtype: "fp8",
      rows: 27,
      slots: 2,
      slabs: [2, 1],
      columns: 141,
      intermediate: 133,
      quantize: true,
      squares: true,
    },
    {
      dtype: "bf16",
      rows: 3,
      slots: 3,
      slabs: [1, 4],
      columns: 65,
      intermediate: 21,
      quantize: false,
    },
    {
      dtype: "int4",
      groupColumns: 64,
      rows: 7,
      slots: 2,
      slabs: [2, 1],
      bias: true,
      columns: 141,
      intermediate: 133,
      quantize: true,
      squares: true,
      ...IN_RUNS,
    },
    {
      dtype: "mxfp4",
      rows: 3,
      slots: 3,
      slabs: [1, 4],
      bias: true,
      activation: clamped,
      columns: 141,
      intermediate: 21,
      quantize: false,
    },
    {
      dtype: "int8",
      rows: 3,
      slots: 3,
      slabs: [1, 4],
      columns: 141,
      intermediate: 21,
      quantize: false,
    },
    {
      dtype: "fp8",
      rows: 1,
      slots: 8,
      slabs: [5, 4],
      columns: 512,
      intermediate: 256,
      quantize: true,
    },
  ],
  tunings: EXPERT_TUNINGS,
  // A group of the rounding leaves less room to share columns out.
  tunedCases: [0, 1],
  exactAcrossTunings: true,
  tolerance: 1e-5,
  bytes: (shape) => storedBytes(matrixOf(shape)) * chosenAtMost(shape),
  flops: ({ rows, slots, columns, intermediate }) => 4 * rows * slots * columns * intermediate,
  mutants: [
    { name: "every pair has its own x", replace: "/ params.slots * params", with: "* params" },
    ...TILE_MUTANTS,
    {
      name: "up rows start elsewhere",
      replace: "vec2u(params.up_row)",
      with: "vec2u(params.outputs)",
    },
    { name: "nothing is rounded", replace: "if QUANTIZE {", with: "if false {" },
    { name: "rows are read too close", replace: "* params.x_stride", with: "* params.columns" },
    {
      name: "rows are written too close",
      replace: "* params.out_stride",
      with: "* params.outputs",
    },
    { name: "outputs beyond the last are written", replace: "if valid.y", with: "if true" },
    {
      name: "the limit is ignored",
      replace: "min(gate, vec2f(params.limit))",
      with: "gate",
      case: 3,
    },
    { name: "alpha is 1", replace: "-params.alpha * g", with: "-g", case: 3 },
    {
      name: "every row has the scale of the first",
      replace: "row_scale(x_first[t])",
      with: "row_scale(x_first[0])",
    },
    { name: "eps is dropped", replace: "+ params.eps", with: "" },
    {
      name: "the bias is scaled too",
      replace: "fma(sums[t], vec4f(scale), bias_of(row))",
      with: "(sums[t] + bias_of(row)) * scale",
      case: 2,
    },
    {
      name: "rows without sums are scaled",
      replace: "params.squares == 0u ||",
      with: "",
      case: 1,
    },
  ],

  inputs(shape, random) {
    const { rows, columns, squares } = shape;
    const x = squares
      ? randomSquaredRows({ rows, columns }, random)
      : randomRows({ rows, columns, stride: strideOf(columns) }, random);
    return {
      x: x.map((value) => value * 0.1),
      ...randomExperts(shape, matrixOf(shape), random),
      ...randomPairs(shape, random),
    };
  },

  reference(shape, inputs) {
    const { rows, slots, columns, intermediate, quantize, activation, squares } = shape;
    const weights = unpackExperts(shape, matrixOf(shape), inputs);
    const biases = expertBiases(shape, matrixOf(shape), inputs);
    const { x, experts } = inputs;
    const { upRow } = gateUpRows(intermediate, checkOrder(shape));
    const outStride = strideOf(intermediate);
    const pairs = rows * slots;
    const out = new Float64Array(pairs * outStride).fill(Number.NaN);
    for (let pair = 0; pair < pairs; pair++) {
      const weight = weights[experts![pair]!]!;
      const bias = biases[experts![pair]!]!;
      const r = Math.floor(pair / slots);
      const first = r * xStrideOf(shape);
      const scale = squares ? scaleOf(x!, r, columns) : 1;
      const sum = (row: number) => dot({ weight, columns, row }, x!, first) * scale + bias[row]!;
      const h = gatedRow(intermediate, sum, (i) => sum(upRow + i), activation);
      if (quantize) quantizeRow(h);
      out.set(h, pair * outStride);
    }
    return { out };
  },

  bind(recorder, shape, tensors, tuning) {
    const { sorted = 0 } = tuning;
    const { rows, slots, columns, intermediate, quantize, activation, squares } = shape;
    const launch = expertGateUp(recorder, {
      x: tensors.x!,
      xStride: xStrideOf(shape),
      ...(squares && { squares: squaresOf(columns) }),
      slots,
      experts: tensors.experts!,
      sortedPairs: tensors.sorted_pairs!,
      weights: {
        ...expertWeights(shape, matrixOf(shape), tensors),
        ...layoutOf(tuning, recorder.device),
      },
      intermediate,
      out: tensors.out!,
      outStride: strideOf(intermediate),
      quantize,
      ...(activation && { activation }),
      ...tileOptions(tuning, tensors),
    });
    return () => launch(rows, sorted === 1 ? tileSizeOf(tuning) : undefined);
  },
});
