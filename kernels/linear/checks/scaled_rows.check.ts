import { defineCheck } from "../../check.ts";
import { linear } from "../linear.ts";
import { scaleWords, segments, subgroupsOf, type WeightDtype } from "../weights/layout.ts";
import { storedBytes } from "../weights/weight_cost.ts";
import { paddedRows } from "../weights/weight_order.ts";
import { formsOf, TABLE_FORMS } from "./check_forms.ts";
import { randomSquaredRows, scaleOf, squaredStride, squaresOf } from "./check_squares.ts";
import {
  type CheckOrder,
  dot,
  IN_RUNS,
  outputsByColumns,
  randomBias,
  randomWeight,
  unpackWeight,
} from "./check_weights.ts";

interface Shape extends CheckOrder {
  readonly dtype: WeightDtype;
  readonly rows: number;
  readonly columns: number;
  readonly outputs: number;
  readonly bias: boolean;
}

/** First one of several rows, as faults in how rows are told apart need, that compiles soon. */
const FORMS = [{ tokens: 2, split: 1, workgroup: 8, staged: 0 }, ...TABLE_FORMS];
const outStrideOf = ({ outputs }: Shape) => outputs + 3;

/** A linear over rows that are still to be scaled, by the sums of squares behind their columns. */
export default defineCheck<Shape>({
  name: "linear/linear scaled rows",
  cases: [
    // Nine sums of squares, the last of fewer columns.
    { dtype: "bf16", rows: 9, columns: 269, outputs: 44, bias: true },
    { dtype: "fp8", rows: 5, columns: 141, outputs: 37, bias: false },
    { dtype: "int4", rows: 5, columns: 141, outputs: 133, bias: true, ...IN_RUNS },
    { dtype: "f32", rows: 1, columns: 1, outputs: 1, bias: false },
    // Rows beyond any staged tile.
    { dtype: "bf16", rows: 69, columns: 1090, outputs: 33, bias: true },
    { dtype: "fp8", rows: 1, columns: 2048, outputs: 2048, bias: false },
  ],
  tunings: [
    ...FORMS,
    { tokens: 4, subgroups: 1 },
    { tokens: 2, split: 4, workgroup: 32, subgroups: 1 },
  ],
  exactAcrossTunings: true,
  tolerance: 5e-6,
  bytes: (shape) => storedBytes(outputsByColumns(shape)),
  flops: ({ rows, columns, outputs }) => 2 * rows * columns * outputs,
  mutants: [
    { name: "eps is dropped", replace: "+ params.eps", with: "" },
    {
      name: "the mean is a sum",
      replace: "join(sums) / f32(params.columns)",
      with: "join(sums)",
    },
    {
      name: "only whole vectors of sums count",
      replace: "4u * v < tiles",
      with: "4u * v + 3u < tiles",
    },
    {
      name: "the sum of the last columns is left out",
      replace: "params.columns + SQUARES_COLUMNS - 1u",
      with: "params.columns",
    },
    {
      name: "only the last vector of sums counts",
      replace: "sums += select",
      with: "sums = select",
    },
    {
      name: "what is behind the last sum counts",
      replace: "select(vec4f(), bitcast<vec4f>(x[start + v]), inside)",
      with: "bitcast<vec4f>(x[start + v])",
    },
    {
      name: "a sum below zero is no sign",
      replace: "|| bitcast<f32>(x[start].x) < 0.0",
      with: "",
    },
    { name: "no row is scaled", replace: "params.squares == 0u ||", with: "true ||" },
    {
      name: "sums are the row's first columns",
      replace: "first + params.squares",
      with: "first",
    },
    {
      name: "every row has the scale of the first",
      replace: "row_scale(x_first[t])",
      with: "row_scale(x_first[0])",
    },
    {
      name: "the bias is scaled too",
      replace: "fma(sums[t], vec4f(scale), bias_of(row))",
      with: "(sums[t] + bias_of(row)) * scale",
    },
    {
      name: "the bias is dropped",
      replace: "vec4f(scale), bias_of(row)",
      with: "vec4f(scale), vec4f()",
    },
    {
      name: "nothing is scaled without a bias",
      replace: "sums[t] * scale",
      with: "sums[t]",
      case: 1,
    },
    {
      name: "invocations without rows write",
      replace: "return invocation < ROW_LANES * TOKEN_LANES;",
      with: "return true;",
      tuning: FORMS.findIndex(({ split }) => split > 1),
    },
    {
      name: "staged tiles all have the first rows",
      replace: "tile * TOKEN_LANES +",
      with: "",
      case: 4,
      tuning: FORMS.findIndex(({ staged }) => staged === 1),
    },
  ],

  inputs(shape, random) {
    const weight = outputsByColumns(shape);
    const x = randomSquaredRows(shape, random);
    const { words, scales } = randomWeight(weight, random);
    return {
      x,
      words,
      ...(scaleWords(shape) > 0 && { scales }),
      ...(shape.bias && { bias: randomBias(weight, random) }),
    };
  },

  reference(shape, { x, words, scales = new Uint32Array(), bias }) {
    const { rows, columns, outputs } = shape;
    const weight = unpackWeight(outputsByColumns(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    // One row more than is asked for: it must keep its poison.
    const out = new Float64Array((rows + 1) * outStrideOf(shape)).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      const scale = scaleOf(x!, r, columns);
      for (let n = 0; n < outputs; n++) {
        const sum = dot({ weight, columns, row: n }, x!, r * squaredStride(columns));
        out[r * outStrideOf(shape) + n] = sum * scale + (bias?.[n] ?? 0);
      }
    }
    return { out };
  },

  bind(recorder, shape, { x, words, scales, bias, out }, { subgroups = 0, ...tuning }) {
    const { rows, columns, outputs } = shape;
    const launch = linear(recorder, {
      x: x!,
      xStride: squaredStride(columns),
      squares: squaresOf(columns),
      weight: {
        ...(subgroups === 1 && subgroupsOf(recorder.device)),
        ...outputsByColumns(shape),
        rowsPadded: paddedRows(outputs, outputsByColumns(shape)),
        words: words!,
        ...(scales && { scales }),
        ...(bias && { bias }),
      },
      out: out!,
      outStride: outStrideOf(shape),
      segments: segments(columns),
      forms: formsOf(tuning),
    });
    return () => launch(rows);
  },
});
