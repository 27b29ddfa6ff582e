import { allocateTensor } from "../../src/gpu/tensor.ts";
import { defineCheck } from "../check.ts";
import { addNorm } from "../norm/add_norm.ts";
import { quantizeGroups } from "../norm/reference.ts";
import { formsOf, ONE_ROW_FORMS } from "./check_forms.ts";
import {
  CHECK_LANES,
  dot,
  outputsByColumns,
  randomRows,
  randomWeight,
  unpackWeight,
} from "./check_weights.ts";
import { layoutFor, paddedRows, scaleWords, type WeightDtype } from "./layout.ts";
import { linear } from "./linear.ts";
import { storedBytes } from "./weight_cost.ts";

interface Shape {
  readonly dtype: WeightDtype;
  readonly columns: number;
  readonly outputs: number;
  readonly outColumn: number;
  readonly rounded: boolean;
  readonly residual: boolean;
  readonly scale: number;
  readonly eps: number;
}

const lanes = CHECK_LANES;
const strideOf = (columns: number) => Math.ceil(columns / 4) * 4 + 4;

/** A linear over one row that norms and rounds its input and adds to its output. */
export default defineCheck<Shape>({
  name: "linear/linear one row",
  cases: [
    // Three groups of the rounding, the last a short one that ends inside a vector.
    {
      ...{ dtype: "fp8", columns: 269, outputs: 44, outColumn: 5 },
      ...{ rounded: true, residual: true, scale: 1, eps: 0.02 },
    },
    {
      ...{ dtype: "bf16", columns: 1090, outputs: 37, outColumn: 0 },
      ...{ rounded: false, residual: false, scale: 1, eps: 0.02 },
    },
    // Magnitudes below the smallest that a scale stands for.
    {
      ...{ dtype: "f32", columns: 130, outputs: 33, outColumn: 0 },
      ...{ rounded: true, residual: true, scale: 1e-5, eps: 0.02 },
    },
    {
      ...{ dtype: "fp8", columns: 1, outputs: 1, outColumn: 0 },
      ...{ rounded: true, residual: false, scale: 1, eps: 1e-6 },
    },
    {
      ...{ dtype: "fp8", columns: 2048, outputs: 2048, outColumn: 0 },
      ...{ rounded: true, residual: true, scale: 1, eps: 1e-6 },
    },
  ],
  tunings: [
    ...ONE_ROW_FORMS.map((form) => ({ folded: 1, ...form })),
    { folded: 0 },
    { folded: 1, workgroup: 64 },
    { folded: 1, subgroups: 1 },
  ],
  exactAcrossTunings: true,
  tolerance: 2e-5,
  bytes: (shape) => storedBytes(outputsByColumns(shape)),
  flops: ({ columns, outputs }) => 2 * columns * outputs,
  mutants: [
    { name: "eps is 0", replace: "f32(columns) + params.eps", with: "f32(columns)" },
    { name: "a weight is not there", replace: "* norm_weight[v]", with: "" },
    { name: "rows are not scaled", replace: "x[first[t] + v] * scale", with: "x[first[t] + v]" },
    { name: "the mean is a sum", replace: "total / f32(columns)", with: "total" },
    { name: "a sum is left out", replace: "i < NORM_LANES; i++", with: "i < NORM_LANES - 1u; i++" },
    {
      name: "what lies beyond the row counts",
      replace: "select(vec4f(), x[start + v], inside)",
      with: "x[start + v]",
    },
    { name: "nothing is rounded", replace: "if ROUNDED {", with: "if false {" },
    {
      name: "one scale for the row",
      replace: "t * ROW_GROUPS + v / GROUP_VECTORS",
      with: "t * ROW_GROUPS",
    },
    {
      name: "a column of four does not count for the scale",
      replace: "max(abs(value.z), abs(value.w))",
      with: "abs(value.z)",
    },
    {
      name: "no least scale",
      replace: "max(largest, SMALLEST_MAGNITUDE)",
      with: "max(largest, 1e-30)",
      case: 2,
    },
    {
      name: "nothing is added",
      replace: "params.residual != 0u",
      with: "false",
    },
    {
      name: "what stands there is always added",
      replace: "params.residual != 0u",
      with: "true",
      case: 1,
    },
  ],

  inputs(shape, random) {
    const { columns, outputs, outColumn, residual } = shape;
    const x = randomRows({ rows: 1, columns, stride: strideOf(columns) }, random);
    const { words, scales } = randomWeight(outputsByColumns(shape), random);
    const width = outColumn + outputs + 3;
    return {
      x: x.map((value) => value * shape.scale),
      words,
      ...(scaleWords(shape) > 0 && { scales }),
      norm_weight: Float32Array.from({ length: paddedRows(columns, 4) }, () => 0.5 + random()),
      ...(residual && { out: randomRows({ rows: 1, columns: width, stride: width }, random) }),
    };
  },

  reference(shape, inputs) {
    const { columns, outputs, outColumn, rounded, eps } = shape;
    const { x, words, scales = new Uint32Array(), norm_weight } = inputs;
    const weight = unpackWeight(outputsByColumns(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    let squares = 0;
    for (let k = 0; k < columns; k++) squares += x![k]! ** 2;
    const scale = 1 / Math.sqrt(squares / columns + eps);
    const normed = Float64Array.from(
      { length: columns },
      (_, k) => x![k]! * scale * norm_weight![k]!,
    );
    const row = rounded ? quantizeGroups(normed) : normed;
    const before = inputs.out;
    const out = Float64Array.from(
      before ?? new Float64Array(outColumn + outputs + 3).fill(Number.NaN),
    );
    for (let n = 0; n < outputs; n++) {
      out[outColumn + n] =
        (before?.[outColumn + n] ?? 0) + dot({ weight, columns, row: n }, row, 0);
    }
    return { out };
  },

  bind(recorder, shape, tensors, tuning) {
    const { columns, outputs, outColumn, rounded, residual, eps } = shape;
    const { folded = 0, subgroups = 0 } = tuning;
    const { x, words, scales, norm_weight, out } = tensors;
    const xStride = strideOf(columns);
    const { device } = recorder;
    const spare = (label: string) => allocateTensor(device, xStride * 4, label);
    const [normed, quantized] = [spare("normed"), spare("quantized")];
    const norm = { weight: norm_weight!, eps, rounded };
    const launch = linear(recorder, {
      x: rounded ? quantized : normed,
      xStride,
      weight: {
        ...(subgroups === 1 && layoutFor(device)),
        ...outputsByColumns(shape),
        rowsPadded: paddedRows(outputs, lanes),
        words: words!,
        ...(scales && { scales }),
      },
      out: out!,
      outStride: outColumn + outputs + 3,
      outColumn,
      forms: formsOf({ tokens: 1, ...tuning }),
      oneRow: {
        ...(folded === 1 && { x: x!, norm }),
        ...(residual && { residual: out! }),
      },
    });
    if (folded === 1) return () => launch(1);
    const first = addNorm(recorder, {
      ...{ x: x!, weight: norm_weight!, normed, quantized: rounded ? quantized : undefined },
      ...{ cols: columns, stride: xStride, eps },
    });
    return () => {
      first(1);
      launch(1);
    };
  },
});
