import { defineCheck } from "../check.ts";
import { quantize } from "../norm/quantize.ts";
import { besideStaged, formsOf, ONE_ROW_FORMS } from "./check_forms.ts";
import {
  CHECK_LANES,
  dot,
  outputsByColumns,
  quantizeRow,
  randomRows,
  randomWeight,
  unpackWeight,
} from "./check_weights.ts";
import { layoutFor, paddedRows, type WeightDtype } from "./layout.ts";
import { linear } from "./linear.ts";
import { storedBytes } from "./weight_cost.ts";

interface Shape {
  readonly dtype: WeightDtype;
  readonly columns: number;
  readonly outputs: number;
  /** Outputs that share a slice of `x`. */
  readonly groupRows: number;
}

const lanes = CHECK_LANES;
const sliceStride = ({ columns }: Shape) => Math.ceil(columns / 4) * 4;
const slices = ({ outputs, groupRows }: Shape) => Math.ceil(outputs / groupRows);

/** A linear over one row whose outputs are rounded to E4M3, group by group of 128. */
export default defineCheck<Shape>({
  name: "linear/linear rounded outputs",
  cases: [
    // A group of the rounding spans four slices; the last one is short.
    { dtype: "fp8", columns: 141, outputs: 224, groupRows: 32 },
    { dtype: "bf16", columns: 64, outputs: 256, groupRows: 128 },
    { dtype: "fp8", columns: 512, outputs: 2048, groupRows: 128 },
  ],
  tunings: [
    ...ONE_ROW_FORMS.map((form) => ({ folded: 1, ...form })),
    { folded: 0 },
    { folded: 1, subgroups: 1 },
    // A staged form is none of one row whose outputs are rounded, but of a row that is not.
    { folded: 1, staged: 1 },
    { folded: 0, staged: 1 },
  ],
  exactAcrossTunings: true,
  tolerance: 1e-5,
  bytes: (shape) => storedBytes(outputsByColumns(shape)),
  flops: ({ columns, outputs }) => 2 * columns * outputs,
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
      tuning: ONE_ROW_FORMS.findIndex(({ split }) => split > 1),
    },
  ],

  inputs(shape, random) {
    const stride = sliceStride(shape);
    const { words, scales } = randomWeight(outputsByColumns(shape), random);
    const x = randomRows({ rows: slices(shape), columns: shape.columns, stride }, random);
    return { x, words, ...(shape.dtype === "fp8" && { scales }) };
  },

  reference(shape, { x, words, scales = new Uint32Array() }) {
    const { columns, outputs, groupRows } = shape;
    const weight = unpackWeight(outputsByColumns(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    const out = Float64Array.from({ length: outputs }, (_, n) =>
      dot({ weight, columns, row: n }, x!, Math.floor(n / groupRows) * sliceStride(shape)),
    );
    quantizeRow(out);
    return { out };
  },

  bind(recorder, shape, { x, words, scales, out }, { folded = 0, subgroups = 0, ...tuning }) {
    const { outputs, groupRows } = shape;
    const forms = formsOf({ tokens: 1, ...tuning, staged: 0 });
    const launch = linear(recorder, {
      x: x!,
      xStride: slices(shape) * sliceStride(shape),
      weight: {
        ...(subgroups === 1 && layoutFor(recorder.device)),
        ...outputsByColumns(shape),
        rowsPadded: paddedRows(outputs, lanes),
        words: words!,
        ...(scales && { scales }),
      },
      out: out!,
      outStride: outputs,
      groups: { rows: groupRows, xStride: sliceStride(shape) },
      forms: tuning.staged === 1 ? besideStaged(forms) : forms,
      oneRow: folded === 1 ? { roundOutputs: true } : undefined,
    });
    const round = folded === 1 ? undefined : quantize(recorder, { x: out!, cols: outputs });
    return () => {
      launch(1);
      round?.(1);
    };
  },
});
