import { decodeF16, encodeF16 } from "../../../src/dtype.ts";
import { defineCheck } from "../../check.ts";
import { linear } from "../linear.ts";
import {
  type GroupColumns,
  scaleWords,
  subgroupsOf,
  type WeightDtype,
  type WeightShape,
} from "../weights/layout.ts";
import { storedBytes } from "../weights/weight_cost.ts";
import { paddedRows } from "../weights/weight_order.ts";
import { formsOf } from "./check_forms.ts";
import {
  type CheckOrder,
  IN_RUNS,
  outputsByColumns,
  randomBias,
  randomRows,
  randomWeight,
  unpackWeight,
} from "./check_weights.ts";

interface Shape extends CheckOrder {
  readonly dtype: WeightDtype;
  readonly groupColumns?: GroupColumns;
  readonly rows: number;
  readonly columns: number;
  readonly outputs: number;
}

const weightShape = ({ groupColumns, ...shape }: Shape): WeightShape => ({
  ...outputsByColumns(shape),
  ...(groupColumns && { groupColumns }),
});
const strideOf = ({ columns }: Shape) => Math.ceil(columns / 4) * 4;
const toHalf = (value: number) => decodeF16(encodeF16(value));

/** Few: drivers without arithmetic in f16 take seconds to compile each. */
const TUNINGS = [
  { tokens: 4, split: 1, workgroup: 8 },
  { tokens: 16, split: 1, workgroup: 64, staged: 1 },
  { tokens: 1, split: 16, workgroup: 128, words: 0 },
  { tokens: 2, split: 1, workgroup: 8, bits: 1, subgroups: 1 },
  { tokens: 32, split: 1, workgroup: 128, staged: 1 },
  { tokens: 4, split: 1, workgroup: 8, piecesAtOnce: 1 },
];
const STAGED = 1;
/** A piece in two rounds. */
const IN_ROUNDS = 5;

/** A linear whose weights and activations are multiplied in f16 (numeric class f16). */
export default defineCheck<Shape>({
  name: "linear/linear f16",
  feature: "shader-f16",
  cases: [
    // Three blocks and a tail that ends inside a vec4f; no multiple of any tile.
    { dtype: "fp8", rows: 5, columns: 269, outputs: 37 },
    { dtype: "mxfp4", rows: 3, columns: 141, outputs: 9 },
    { dtype: "bf16", rows: 9, columns: 135, outputs: 33, rowsPerLane: 4 },
    { dtype: "f16", rows: 1, columns: 17, outputs: 5 },
    { dtype: "int4", groupColumns: 32, rows: 2, columns: 333, outputs: 12 },
    { dtype: "int4", groupColumns: 64, rows: 4, columns: 129, outputs: 12 },
    { dtype: "int8", rows: 8, columns: 653, outputs: 45, ...IN_RUNS },
    // They stay in f32.
    { dtype: "f32", rows: 2, columns: 130, outputs: 33 },
    { dtype: "fp8", rows: 1, columns: 2048, outputs: 2048 },
  ],
  tunings: TUNINGS,
  exactAcrossTunings: true,
  // Eight products of about 0.3 are added up in f16: each sum is off by up to 2^-12 of its size.
  tolerance: 2e-3,
  bytes: (shape) => storedBytes(weightShape(shape)),
  flops: ({ rows, columns, outputs }) => 2 * rows * columns * outputs,
  mutants: [
    {
      name: "decoded weights stay small",
      replace: "f32(WEIGHT_UP) * decode_vector",
      with: "decode_vector",
    },
    { name: "sums stay large", replace: "* WEIGHT_DOWN", with: "" },
    { name: "runs overlap", replace: "run += RUN_PIECES", with: "run += 1u" },
    {
      name: "staged weights stay small",
      replace: "Staged(f32(WEIGHT_UP) * decoded[v])",
      with: "Staged(decoded[v])",
      tuning: STAGED,
    },
    {
      name: "a step takes the place of those before",
      replace: "(*chains)[t][1] += vec4f",
      with: "(*chains)[t][1] = vec4f",
      tuning: STAGED,
    },
    {
      name: "a run lost",
      replace: "(*chains)[t][row] += vec4f",
      with: "(*chains)[t][row] = vec4f",
    },
    {
      name: "the x of the first row for all",
      replace: "x_first[t] + first",
      with: "x_first[0] + first",
    },
    {
      name: "one piece too few",
      replace: "min(run + RUN_PIECES, end)",
      with: "run + 1u",
      // A group of three pieces, the last of them in part.
      case: 3,
    },
    {
      name: "x is not masked",
      replace: "vec4<f16>(masked(value, vector))",
      with: "vec4<f16>(value)",
    },
    {
      name: "a group with no column to mask ends a piece early",
      replace: "run, run + RUN_PIECES",
      with: "run, run + RUN_PIECES - 1u",
    },
    {
      name: "the first words of a piece twice",
      replace: "round > 0u",
      with: "false",
      tuning: IN_ROUNDS,
    },
    {
      name: "both rounds multiply the same activations",
      replace: "first + round * ROUND_VECTORS",
      with: "first",
      tuning: IN_ROUNDS,
    },
  ],

  inputs(shape, random) {
    const { rows, columns } = shape;
    const x = randomRows({ rows, columns, stride: strideOf(shape) }, random);
    const { words, scales } = randomWeight(weightShape(shape), random);
    return {
      x,
      words,
      ...(scaleWords(shape) > 0 && { scales }),
      bias: randomBias(weightShape(shape), random),
    };
  },

  reference(shape, { x, words, scales = new Uint32Array(), bias }) {
    const { dtype, rows, columns, outputs } = shape;
    const weight = unpackWeight(weightShape(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    const input = Float64Array.from(x!, (value) => (dtype === "f32" ? value : toHalf(value)));
    const out = new Float64Array(rows * outputs);
    for (let r = 0; r < rows; r++) {
      for (let n = 0; n < outputs; n++) {
        let sum = bias![n]!;
        for (let k = 0; k < columns; k++) {
          // What a scale multiplies is a half in every dtype, and so are these BF16 numbers.
          sum += input[r * strideOf(shape) + k]! * weight[n * columns + k]!;
        }
        out[r * outputs + n] = sum;
      }
    }
    return { out };
  },

  bind(recorder, shape, { x, words, scales, bias, out }, tuning) {
    const { rows, outputs } = shape;
    const { bits = 0, subgroups = 0, words: inWords = 1 } = tuning;
    const launch = linear(recorder, {
      x: x!,
      xStride: strideOf(shape),
      weight: {
        ...(subgroups === 1 && subgroupsOf(recorder.device)),
        ...weightShape(shape),
        halfProducts: true,
        wordSums: inWords === 1 && recorder.device.features.has("subgroups"),
        fp8Decode: bits === 1 ? "bits" : "half",
        rowsPadded: paddedRows(outputs, weightShape(shape)),
        words: words!,
        bias: bias!,
        ...(scales && { scales }),
      },
      out: out!,
      outStride: outputs,
      forms: formsOf(tuning),
    });
    return () => launch(rows);
  },
});
