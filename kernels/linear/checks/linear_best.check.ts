import { allocateTensor } from "../../../src/gpu/tensor.ts";
import { defineCheck } from "../../check.ts";
import { bestTile } from "../../sampling/best_tile.ts";
import { linearBest } from "../linear_best.ts";
import { subgroupsOf, type WeightDtype } from "../weights/layout.ts";
import { storedBytes } from "../weights/weight_cost.ts";
import { paddedRows } from "../weights/weight_order.ts";
import { besideStaged, formsOf, UNSTAGED_FORMS } from "./check_forms.ts";
import {
  type CheckOrder,
  dot,
  IN_RUNS,
  outputsByColumns,
  randomBias,
  randomRows,
  randomWeight,
  unpackWeight,
} from "./check_weights.ts";

interface Shape extends CheckOrder {
  readonly dtype: WeightDtype;
  readonly rows: number;
  readonly columns: number;
  /** Outputs of each of two weights, whose columns follow one another. */
  readonly outputs: readonly [number, number];
}

const xStride = ({ columns }: Shape) => Math.ceil(columns / 4) * 4;
/** As many tiles as outputs would do; four outputs are the smallest tile. */
const tileStride = ({ outputs: [a, b] }: Shape) => Math.ceil(a / 4) + Math.ceil(b / 4);
const weightShape = (shape: Shape, which: 0 | 1) =>
  outputsByColumns({ ...shape, outputs: shape.outputs[which] });

/** The best output of each row, from two weights as an output head has that no one tensor holds. */
export default defineCheck<Shape>({
  name: "linear/linear best",
  cases: [
    { dtype: "bf16", rows: 9, columns: 141, outputs: [132, 37] },
    { dtype: "fp8", rows: 1, columns: 300, outputs: [70, 5], ...IN_RUNS },
    { dtype: "bf16", rows: 2, columns: 512, outputs: [2048, 2048] },
  ],
  tunings: [...UNSTAGED_FORMS, { tokens: 4, subgroups: 1, split: 1, workgroup: 8 }],
  exactAcrossTunings: true,
  tolerance: 0,
  bytes: (shape) => storedBytes(weightShape(shape, 0)) + storedBytes(weightShape(shape, 1)),
  flops: ({ rows, columns, outputs: [a, b] }) => 2 * rows * columns * (a + b),
  mutants: [
    {
      name: "ties go to the highest column",
      replace: "index < other_index",
      with: "index > other_index",
    },
    { name: "NaN wins", replace: "return 0u;", with: "return 0xffffffffu;" },
    {
      name: "columns are those of the weight",
      replace: "params.out_column + output[i]",
      with: "output[i]",
    },
    {
      name: "every row has the best of the first",
      replace: "bests[t * ROW_LANES + i]",
      with: "bests[i]",
      tuning: UNSTAGED_FORMS.findIndex(({ tokens }) => tokens > 1),
    },
    {
      name: "tiles of the second weight replace those of the first",
      replace: "params.first_tile + tile",
      with: "tile",
    },
    {
      name: "the first output of an invocation only",
      replace: "i < 4u; i++) {\n        // Beyond",
      with: "i < 1u; i++) {\n        // Beyond",
    },
  ],

  inputs(shape, random) {
    const { rows, columns } = shape;
    const stride = xStride(shape);
    const x = randomRows({ rows, columns, stride }, random);
    // A row whose outputs are all equal but for the bias, which has ties, and one of NaN.
    if (rows > 2) x.fill(0, stride, stride + columns).fill(Number.NaN, 2 * stride, 3 * stride);
    const bias = (which: 0 | 1) =>
      randomBias(weightShape(shape, which), random).map((value, i) =>
        i === 3 ? Number.NaN : Math.round(4 * value) / 4,
      );
    const first = randomWeight(weightShape(shape, 0), random);
    const second = randomWeight(weightShape(shape, 1), random);
    return {
      x,
      words_0: first.words,
      scales_0: first.scales,
      bias_0: bias(0),
      words_1: second.words,
      scales_1: second.scales,
      bias_1: bias(1),
    };
  },

  reference(shape, inputs) {
    const { rows, columns, outputs } = shape;
    const weights = ([0, 1] as const).map((which) =>
      unpackWeight(weightShape(shape, which), {
        words: inputs[`words_${which}`] as Uint32Array,
        scales: inputs[`scales_${which}`] as Uint32Array,
      }),
    );
    const ids = new Uint32Array(rows);
    for (let r = 0; r < rows; r++) {
      const all = weights.flatMap((weight, which) =>
        Array.from({ length: outputs[which as 0 | 1] }, (_, row) => {
          const sum = dot({ weight, columns, row }, inputs.x!, r * xStride(shape));
          return sum + inputs[`bias_${which}`]![row]!;
        }),
      );
      ids[r] = all.reduce((best, value, i) => (value > all[best]! ? i : best), 0);
    }
    return { ids };
  },

  bind(recorder, shape, tensors, { subgroups = 0, ...tuning }) {
    const { rows, outputs } = shape;
    const stride = tileStride(shape);
    const tiles = allocateTensor(recorder.device, rows * stride * 8, "tiles");
    const launches = ([0, 1] as const).map((which) =>
      linearBest(recorder, {
        x: tensors.x!,
        xStride: xStride(shape),
        weight: {
          ...(subgroups === 1 && subgroupsOf(recorder.device)),
          ...weightShape(shape, which),
          rowsPadded: paddedRows(outputs[which], weightShape(shape, which)),
          words: tensors[`words_${which}`]!,
          scales: tensors[`scales_${which}`]!,
          bias: tensors[`bias_${which}`]!,
        },
        outColumn: which === 0 ? 0 : outputs[0],
        tiles,
        tileStride: stride,
        forms: besideStaged(formsOf(tuning)),
      }),
    );
    const choose = bestTile(recorder, { tiles, stride, ids: tensors.ids! });
    return () => {
      const count = launches.reduce((first, launch) => first + launch(rows, first), 0);
      choose(rows, count);
    };
  },
});
