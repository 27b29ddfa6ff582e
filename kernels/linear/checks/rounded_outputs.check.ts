import { defineCheck } from "../../check.ts";
import { quantize } from "../../norm/quantize.ts";
import { linear } from "../linear.ts";
import { scaleWords, subgroupsOf, type WeightDtype } from "../weights/layout.ts";
import { storedBytes } from "../weights/weight_cost.ts";
import { paddedRows } from "../weights/weight_order.ts";
import { besideStaged, formsOf, UNSTAGED_FORMS } from "./check_forms.ts";
import {
  type CheckOrder,
  dot,
  IN_RUNS,
  outputsByColumns,
  quantizeRow,
  randomBias,
  randomRows,
  randomWeight,
  unpackWeight,
} from "./check_weights.ts";

interface Shape extends CheckOrder {
  readonly dtype: WeightDtype;
  readonly rows: number;
  readonly columns: number;
  readonly outputs: number;
  readonly bias: boolean;
  /** Outputs that share a slice of `x`. */
  readonly groupRows: number;
}

const sliceStride = ({ columns }: Shape) => Math.ceil(columns / 4) * 4;
const outStrideOf = ({ outputs }: Shape) => outputs + 3;
const slices = ({ outputs, groupRows }: Shape) => Math.ceil(outputs / groupRows);
/** First one of several rows, as faults in how rows are told apart need, that compiles soon. */
const FORMS = [{ tokens: 2, split: 1, workgroup: 8, staged: 0 }, ...UNSTAGED_FORMS];

/** A linear whose outputs are rounded to E4M3, group by group of 128. */
export default defineCheck<Shape>({
  name: "linear/linear rounded outputs",
  cases: [
    // A group of the rounding spans four slices; the last one is short.
    { dtype: "bf16", rows: 9, columns: 141, outputs: 224, groupRows: 32, bias: true },
    // One group of weight rows, no whole number of the rounding's.
    { dtype: "bf16", rows: 5, columns: 64, outputs: 141, groupRows: 141, bias: false },
    {
      dtype: "fp8",
      rows: 1,
      columns: 141,
      outputs: 224,
      groupRows: 32,
      bias: false,
      ...IN_RUNS,
    },
    { dtype: "bf16", rows: 2, columns: 64, outputs: 256, groupRows: 128, bias: false },
    { dtype: "fp8", rows: 4, columns: 512, outputs: 2048, groupRows: 128, bias: false },
  ],
  tunings: [
    ...FORMS.map((form) => ({ folded: 1, ...form })),
    { folded: 0 },
    { folded: 1, subgroups: 1 },
    // A staged form is none of rows whose outputs are rounded, but of rows that are not.
    { folded: 1, staged: 1 },
    { folded: 0, staged: 1 },
  ],
  exactAcrossTunings: true,
  tolerance: 1e-5,
  bytes: (shape) => storedBytes(outputsByColumns(shape)),
  flops: ({ rows, columns, outputs }) => 2 * rows * columns * outputs,
  mutants: [
    {
      name: "nothing is rounded",
      replace: "return rounded;",
      with: "return sums;",
    },
    {
      name: "every run has a scale of its own",
      replace: "atomicMax(&largest[t], bitcast<u32>(most))",
      with: "atomicStore(&largest[t], bitcast<u32>(most))",
    },
    { name: "every row has the scale of all", replace: "&largest[t]", with: "&largest[0]" },
    {
      name: "the bias is dropped",
      replace: "vec4f(scale), bias_of(row)",
      with: "vec4f(scale), vec4f()",
    },
    {
      name: "rows beyond the last are written",
      replace: "first_row + t < params.rows",
      with: "true",
    },
    {
      name: "every run reads the slice of the first",
      replace: "slice = min(first, params.outputs - 1u)",
      with: "slice = group.x * WORKGROUP_OUTPUTS",
    },
    {
      name: "outputs that are none count",
      replace: "select(vec4f(), abs(sums[t]), valid)",
      with: "abs(sums[t] * select(vec4f(9.0), vec4f(1.0), valid))",
    },
    {
      name: "invocations without rows count",
      replace: "return invocation < ROW_LANES * TOKEN_LANES;",
      with: "return true;",
      tuning: FORMS.findIndex(({ split }) => split > 1),
    },
  ],

  inputs(shape, random) {
    const stride = sliceStride(shape);
    const { rows, columns, bias } = shape;
    const { words, scales } = randomWeight(outputsByColumns(shape), random);
    const x = randomRows({ rows: rows * slices(shape), columns, stride }, random);
    return {
      x,
      words,
      ...(scaleWords(shape) > 0 && { scales }),
      ...(bias && { bias: randomBias(outputsByColumns(shape), random) }),
    };
  },

  reference(shape, { x, words, scales = new Uint32Array(), bias }) {
    const { rows, columns, outputs, groupRows } = shape;
    const weight = unpackWeight(outputsByColumns(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    // One row more than is asked for: it must keep its poison.
    const out = new Float64Array((rows + 1) * outStrideOf(shape)).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      const row = Float64Array.from({ length: outputs }, (_, n) => {
        const slice = r * slices(shape) + Math.floor(n / groupRows);
        return dot({ weight, columns, row: n }, x!, slice * sliceStride(shape)) + (bias?.[n] ?? 0);
      });
      quantizeRow(row);
      out.set(row, r * outStrideOf(shape));
    }
    return { out };
  },

  bind(recorder, shape, { x, words, scales, bias, out }, tuning) {
    const { folded = 0, subgroups = 0, staged = 0, ...plain } = tuning;
    const { rows, outputs, groupRows } = shape;
    const forms = formsOf(plain);
    const stride = outStrideOf(shape);
    const launch = linear(recorder, {
      x: x!,
      xStride: slices(shape) * sliceStride(shape),
      weight: {
        ...(subgroups === 1 && subgroupsOf(recorder.device)),
        ...outputsByColumns(shape),
        rowsPadded: paddedRows(outputs, outputsByColumns(shape)),
        words: words!,
        ...(scales && { scales }),
        ...(bias && { bias }),
      },
      out: out!,
      outStride: stride,
      ...(groupRows < outputs && { groups: { rows: groupRows, xStride: sliceStride(shape) } }),
      forms: staged === 1 ? besideStaged(forms) : forms,
      roundOutputs: folded === 1,
    });
    const round = folded === 1 ? undefined : quantize(recorder, { x: out!, cols: outputs, stride });
    return () => {
      launch(rows);
      round?.(rows);
    };
  },
});
