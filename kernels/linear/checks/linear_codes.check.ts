import { defineCheck } from "../../check.ts";
import { codedStride } from "../../norm/quantize_codes.ts";
import { linear } from "../linear.ts";
import { BLOCK_COLUMNS } from "../weights/layout.ts";
import { storedBytes } from "../weights/weight_cost.ts";
import { paddedRows } from "../weights/weight_order.ts";
import { besideStaged, formsOf, UNSTAGED_FORMS } from "./check_forms.ts";
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
  readonly rows: number;
  readonly columns: number;
  readonly outputs: number;
}

const weightShape = (shape: Shape) => outputsByColumns({ dtype: "int8", ...shape });
const blocksOf = ({ columns }: Shape) => Math.ceil(columns / BLOCK_COLUMNS);

/** A linear whose activations are int8 codes, as its weights are (numeric class int8). */
export default defineCheck<Shape>({
  name: "linear/linear codes",
  cases: [
    // More blocks than a vector has scales, the last one short; no multiple of any tile.
    { rows: 9, columns: 653, outputs: 37, ...IN_RUNS },
    { rows: 1, columns: 17, outputs: 5 },
    { rows: 64, columns: 2048, outputs: 2048 },
  ],
  tunings: UNSTAGED_FORMS,
  exactAcrossTunings: true,
  // Sums of products are whole numbers: what is left is one rounding for each block.
  tolerance: 1e-6,
  bytes: (shape) => storedBytes(weightShape(shape)),
  flops: ({ rows, columns, outputs }) => 2 * rows * columns * outputs,
  mutants: [
    {
      name: "the activations' scale is forgotten",
      replace: "vec4f(totals[t]) * ",
      with: "vec4f(totals[t]) + 0.0 * ",
    },
    { name: "the scale of another block", replace: "[group % 4u]", with: "[0]" },
    { name: "the scale of a block four further", replace: "+ group / 4u", with: "" },
    { name: "a word is left out", replace: "+ dot4I8Packed(a.w, b.w)", with: "" },
    {
      name: "codes have no signs",
      replace: "dot4I8Packed(a.x, b.x)",
      with: "i32(dot4U8Packed(a.x, b.x))",
    },
    {
      name: "every row is the first",
      replace: "x[x_first[t] + piece]",
      with: "x[x_first[0] + piece]",
      tuning: UNSTAGED_FORMS.findIndex(({ tokens }) => tokens > 1),
    },
    {
      name: "blocks are added up whole",
      replace: "totals[t] += vec4i(",
      with: "totals[t] = vec4i(",
    },
  ],

  inputs(shape, random) {
    const { rows, columns } = shape;
    const blocks = blocksOf(shape);
    const stride = codedStride(columns);
    const x = new Uint32Array(rows * stride).fill(0x7fc00000); // NaN behind the scales
    const floats = new Float32Array(x.buffer);
    for (let r = 0; r < rows; r++) {
      const codes = new Int8Array(x.buffer, 4 * r * stride, blocks * BLOCK_COLUMNS);
      for (let c = 0; c < codes.length; c++) {
        codes[c] = c < columns ? Math.floor(random() * 255) - 127 : 0;
      }
      for (let b = 0; b < blocks; b++) {
        floats[r * stride + blocks * (BLOCK_COLUMNS / 4) + b] = (0.5 + random()) / 100;
      }
    }
    const { words, scales } = randomWeight(weightShape(shape), random);
    return { x, words, scales, bias: randomBias(weightShape(shape), random) };
  },

  reference(shape, { x, words, scales, bias }) {
    const { rows, columns, outputs } = shape;
    const weight = unpackWeight(weightShape(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    const stride = codedStride(columns);
    const { buffer } = x as Uint32Array;
    const floats = new Float32Array(buffer);
    const out = new Float64Array(rows * outputs);
    for (let r = 0; r < rows; r++) {
      const codes = new Int8Array(buffer, 4 * r * stride, columns);
      const first = r * stride + blocksOf(shape) * (BLOCK_COLUMNS / 4);
      const row = Float64Array.from(codes, (code, c) => {
        return code * floats[first + Math.floor(c / BLOCK_COLUMNS)]!;
      });
      for (let n = 0; n < outputs; n++) {
        out[r * outputs + n] = dot({ weight, columns, row: n }, row, 0) + bias![n]!;
      }
    }
    return { out };
  },

  bind(recorder, shape, { x, words, scales, bias, out }, tuning) {
    const { rows, columns, outputs } = shape;
    const launch = linear(recorder, {
      x: x!,
      xStride: codedStride(columns),
      coded: true,
      weight: {
        ...weightShape(shape),
        rowsPadded: paddedRows(outputs, weightShape(shape)),
        words: words!,
        scales: scales!,
        bias: bias!,
      },
      out: out!,
      outStride: outputs,
      forms: besideStaged(formsOf(tuning)),
    });
    return () => launch(rows);
  },
});
