import { defineCheck } from "../check.ts";
import { FORMS_OF_ROWS, formsOf } from "./checks/check_forms.ts";
import { randomSquaredRows, scaleOf, squaredStride, squaresOf } from "./checks/check_squares.ts";
import {
  type CheckOrder,
  checkOrder,
  dot,
  gatedRow,
  IN_RUNS,
  outputsByColumns,
  quantizeRow,
  randomBias,
  randomRows,
  randomWeight,
  unpackWeight,
} from "./checks/check_weights.ts";
import { gateUp } from "./gate_up.ts";
import type { GatedActivation } from "./gated_activation.ts";
import { type GroupColumns, scaleWords, subgroupsOf, type WeightDtype } from "./weights/layout.ts";
import { storedBytes } from "./weights/weight_cost.ts";
import { gateUpRows } from "./weights/weight_order.ts";

interface Shape extends CheckOrder {
  readonly dtype: WeightDtype;
  readonly rows: number;
  readonly columns: number;
  readonly intermediate: number;
  readonly quantize: boolean;
  readonly scale: number;
  readonly groupColumns?: GroupColumns;
  readonly bias?: boolean;
  readonly activation?: GatedActivation;
  /** Whether rows are still to be scaled, by sums of squares behind their columns. */
  readonly squares?: boolean;
}

/** A limit that some gates and ups of about 1 exceed. */
const clamped = { kind: "clamped", alpha: 1.702, limit: 0.9 } as const;
export const weightShape = ({ groupColumns, intermediate, ...shape }: Shape) => ({
  ...outputsByColumns({ ...shape, outputs: gateUpRows(intermediate, checkOrder(shape)).rows }),
  ...(groupColumns && { groupColumns }),
});
const strideOf = (columns: number) => Math.ceil(columns / 4) * 4 + 4;
const xStrideOf = ({ columns, squares }: Shape) =>
  squares ? squaredStride(columns) : strideOf(columns);

export default defineCheck<Shape>({
  name: "linear/gate_up",
  cases: [
    // Two groups, the second a short one; two blocks, and a tail within a vec4f.
    { dtype: "fp8", rows: 37, columns: 141, intermediate: 133, quantize: true, scale: 0.1 },
    // Magnitudes below the smallest that a scale stands for.
    { dtype: "bf16", rows: 3, columns: 64, intermediate: 131, quantize: true, scale: 0.002 },
    { dtype: "f32", rows: 5, columns: 7, intermediate: 21, quantize: false, scale: 1 },
    {
      dtype: "int4",
      groupColumns: 32,
      rows: 5,
      columns: 141,
      intermediate: 133,
      quantize: true,
      scale: 0.1,
      bias: true,
      activation: clamped,
    },
    {
      dtype: "mxfp4",
      rows: 2,
      columns: 141,
      intermediate: 21,
      quantize: false,
      scale: 0.1,
      bias: true,
      rowsPerLane: 2,
      scaleOrder: "byRun",
    },
    {
      dtype: "int8",
      rows: 3,
      columns: 130,
      intermediate: 21,
      quantize: false,
      scale: 0.1,
      activation: clamped,
      ...IN_RUNS,
    },
    {
      dtype: "fp8",
      rows: 9,
      columns: 141,
      intermediate: 133,
      quantize: true,
      scale: 1,
      squares: true,
    },
    {
      dtype: "int4",
      groupColumns: 32,
      rows: 3,
      columns: 128,
      intermediate: 21,
      quantize: false,
      scale: 1,
      bias: true,
      squares: true,
    },
    { dtype: "fp8", rows: 1, columns: 1024, intermediate: 2048, quantize: false, scale: 0.1 },
  ],
  tunings: [
    ...FORMS_OF_ROWS,
    { tokens: 4, subgroups: 1 },
    { tokens: 2, split: 2, workgroup: 16, subgroups: 1 },
    { tokens: 32, workgroup: 256, staged: 1 },
  ],
  // A group of the rounding leaves less room to share columns out.
  tunedCases: [0, 5, 6],
  exactAcrossTunings: true,
  tolerance: 1e-5,
  bytes: (shape) => storedBytes(weightShape(shape)),
  flops: ({ rows, columns, intermediate }) => 4 * rows * columns * intermediate,
  mutants: [
    {
      name: "up rows start elsewhere",
      replace: "vec2u(params.up_row)",
      with: "vec2u(params.outputs)",
    },
    {
      name: "gate and up change roles",
      replace: "activation(sums[t].xy, sums[t].zw)",
      with: "activation(sums[t].zw, sums[t].xy)",
    },
    {
      name: "up rows that lie together are one row",
      replace: "third, third + apart",
      with: "third, third",
      case: 5,
    },
    { name: "silu is a sigmoid", replace: "return value / (1.0", with: "return vec2f(1.0) / (1.0" },
    { name: "nothing is rounded", replace: "if QUANTIZE {", with: "if false {" },
    {
      name: "the group is one invocation",
      replace: "atomicMax(&largest[own + t], bitcast<u32>(max(magnitude.x, magnitude.y)));",
      with: "atomicStore(&largest[own + t], bitcast<u32>(max(magnitude.x, magnitude.y)));",
    },
    {
      name: "outputs that are none count",
      replace: "select(vec2f(), abs(h[t]), valid)",
      with: "abs(h[t] * select(vec2f(9.0), vec2f(1.0), valid))",
    },
    {
      name: "a scale may be as small as it likes",
      replace: "max(largest, SMALLEST_MAGNITUDE)",
      with: "largest",
      case: 1,
    },
    { name: "ties and halves are cut off", replace: "bits + 0x0007ffffu", with: "bits" },
    {
      name: "steps below the smallest normal are too long",
      replace: "magnitude * 512.0) * 0.001953125",
      with: "magnitude * 64.0) * 0.015625",
    },
    { name: "rows are read too close", replace: "* params.x_stride", with: "* params.columns" },
    {
      name: "rows are written too close",
      replace: "* params.out_stride",
      with: "* params.outputs",
    },
    { name: "outputs beyond the last are written", replace: "if valid.y", with: "if true" },
    {
      name: "rows beyond the last are written",
      replace: "first_row + t < params.rows",
      with: "true",
    },
    { name: "a sign is lost", replace: "bitcast<f32>(sign |", with: "bitcast<f32>(" },
    {
      name: "the bias is dropped",
      replace: "vec4f(scale), bias_of(row)",
      with: "vec4f(scale), vec4f()",
      case: 3,
    },
    {
      name: "the bias of up is that of gate",
      replace: "bias[row.z], bias[row.w]",
      with: "bias[row.x], bias[row.y]",
      case: 3,
    },
    {
      name: "the limit is ignored",
      replace: "min(gate, vec2f(params.limit))",
      with: "gate",
      case: 3,
    },
    {
      name: "gates have a lower limit",
      replace: "min(gate, vec2f(params.limit))",
      with: "clamp(gate, vec2f(-params.limit), vec2f(params.limit))",
      case: 3,
    },
    {
      name: "ups have no lower limit",
      replace: "clamp(up, vec2f(-params.limit), vec2f(params.limit))",
      with: "min(up, vec2f(params.limit))",
      case: 3,
    },
    { name: "alpha is 1", replace: "-params.alpha * g", with: "-g", case: 3 },
    {
      name: "staged tiles all have the first rows",
      replace: "tile * TOKEN_LANES +",
      with: "",
      tuning: FORMS_OF_ROWS.findIndex(({ staged }) => staged === 1),
    },
    {
      name: "invocations without rows write",
      replace: "return invocation < ROW_LANES * TOKEN_LANES;",
      with: "return true;",
      tuning: FORMS_OF_ROWS.findIndex(({ split }) => split > 1),
    },
    { name: "eps is dropped", replace: "+ params.eps", with: "", case: 6 },
    {
      name: "every row has the scale of the first",
      replace: "row_scale(x_first[t])",
      with: "row_scale(x_first[0])",
      case: 6,
    },
    {
      name: "a sum below zero is no sign",
      replace: "|| bitcast<f32>(x[start].x) < 0.0",
      with: "",
      case: 6,
    },
    {
      name: "the bias is scaled too",
      replace: "fma(sums[t], vec4f(scale), bias_of(row))",
      with: "(sums[t] + bias_of(row)) * scale",
      case: 7,
    },
    { name: "up is not raised by 1", replace: "(u + 1.0)", with: "u", case: 3 },
  ],

  inputs(shape, random) {
    const { rows, columns, scale, squares } = shape;
    const x = squares
      ? randomSquaredRows({ rows, columns }, random)
      : randomRows({ rows, columns, stride: strideOf(columns) }, random);
    const { words, scales } = randomWeight(weightShape(shape), random);
    return {
      x: x.map((value) => value * scale),
      words,
      ...(scaleWords(shape) > 0 && { scales }),
      ...(shape.bias && { bias: randomBias(weightShape(shape), random) }),
    };
  },

  reference(shape, { x, words, scales = new Uint32Array(), bias }) {
    const { rows, columns, intermediate, quantize, activation, squares } = shape;
    const weight = unpackWeight(weightShape(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    const { upRow } = gateUpRows(intermediate, weightShape(shape));
    const outStride = strideOf(intermediate);
    // One row more than is asked for: it must keep its poison.
    const out = new Float64Array((rows + 1) * outStride).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      const first = r * xStrideOf(shape);
      const scale = squares ? scaleOf(x!, r, columns) : 1;
      const sum = (row: number) =>
        scale * dot({ weight, columns, row }, x!, first) + (bias?.[row] ?? 0);
      const h = gatedRow(
        intermediate,
        (i) => sum(i),
        (i) => sum(upRow + i),
        activation,
      );
      if (quantize) quantizeRow(h);
      out.set(h, r * outStride);
    }
    return { out };
  },

  bind(recorder, shape, { x, words, scales, bias, out }, tuning) {
    const { rows, columns, intermediate, quantize, activation, squares } = shape;
    const launch = gateUp(recorder, {
      x: x!,
      xStride: xStrideOf(shape),
      ...(squares && { squares: squaresOf(columns) }),
      weight: {
        ...weightShape(shape),
        rowsPadded: weightShape(shape).rows,
        words: words!,
        ...(scales && { scales }),
        ...(bias && { bias }),
        ...(tuning.subgroups === 1 && subgroupsOf(recorder.device)),
      },
      intermediate,
      out: out!,
      outStride: strideOf(intermediate),
      quantize,
      ...(activation && { activation }),
      forms: formsOf(tuning),
    });
    return () => launch(rows);
  },
});
