import { allocateTensor } from "../../src/gpu/tensor.ts";
import { mergeSplits } from "../attention/merge_splits.ts";
import { defineCheck } from "../check.ts";
import { FORMS_OF_ROWS, formsOf } from "./checks/check_forms.ts";
import {
  type CheckOrder,
  dot,
  IN_RUNS,
  outputsByColumns,
  quantizeRow,
  randomWeight,
  unpackWeight,
} from "./checks/check_weights.ts";
import { linear } from "./linear.ts";
import { mergingLinear } from "./merging_linear.ts";
import { scaleWords, subgroupsOf, type WeightDtype } from "./weights/layout.ts";
import { storedBytes } from "./weights/weight_cost.ts";
import { paddedRows } from "./weights/weight_order.ts";

interface Shape extends CheckOrder {
  readonly dtype: WeightDtype;
  readonly columns: number;
  readonly outputs: number;
  /** Outputs that share a slice. */
  readonly groupRows: number;
  /** Position of each row: the last of the keys that it has splits of. */
  readonly positions: readonly number[];
  readonly rounded: boolean;
}

const SPLIT_LENGTH = 8;
const PAD = 3;
const slices = ({ outputs, groupRows }: Shape) => Math.ceil(outputs / groupRows);
const splitWords = (shape: Shape) => slices(shape) * (2 + shape.columns);
const splitsOf = (position: number) => Math.floor(position / SPLIT_LENGTH) + 1;
const mostSplits = ({ positions }: Shape) => splitsOf(Math.max(...positions));
/** Of all rows. */
const splitCount = ({ positions }: Shape) =>
  positions.reduce((sum, position) => sum + splitsOf(position), 0);

/** Of more rows there are no forms. */
const MOST_TOKENS = 4;
const FORMS = FORMS_OF_ROWS.filter(({ tokens, staged }) => tokens <= MOST_TOKENS && staged === 0);

/** A linear over rows whose slices lie in splits. */
export default defineCheck<Shape>({
  name: "linear/merging_linear",
  cases: [
    // A slice has two workgroups, the second one with outputs for one lane. Rows end at the first key
    // of a split, at the last one and between; they are no whole workgroups.
    {
      dtype: "fp8",
      columns: 140,
      outputs: 260,
      groupRows: 130,
      rounded: false,
      positions: [20, 7, 8, 23, 3],
      ...IN_RUNS,
    },
    // A workgroup has four slices, the last one two. Columns end inside a piece of the weights.
    {
      dtype: "fp8",
      columns: 76,
      outputs: 192,
      groupRows: 32,
      rounded: true,
      positions: [15, 21, 2],
    },
    {
      dtype: "f32",
      columns: 256,
      outputs: 512,
      groupRows: 256,
      rounded: true,
      positions: [5],
    },
    // Fewer outputs of a slice than a run of lanes has.
    {
      dtype: "bf16",
      columns: 20,
      outputs: 18,
      groupRows: 6,
      rounded: false,
      positions: [31, 12],
    },
    {
      dtype: "fp8",
      columns: 512,
      outputs: 2048,
      groupRows: 128,
      rounded: false,
      positions: [125, 40, 64],
    },
  ],
  tunings: [
    ...FORMS.map((form) => ({ folded: 1, ...form })),
    { folded: 0 },
    { folded: 1, tokens: 2, subgroups: 1 },
  ],
  tunedCases: [0, 1],
  exactAcrossTunings: true,
  tolerance: 1e-5,
  bytes: (shape) =>
    storedBytes(outputsByColumns(shape)) + splitCount(shape) * splitWords(shape) * 4,
  flops: (shape) =>
    2 * shape.positions.length * shape.columns * shape.outputs +
    4 * splitCount(shape) * splitWords(shape),
  mutants: [
    { name: "one split is left out", replace: "split < splits;", with: "split + 1u < splits;" },
    { name: "one split too many", replace: "split < splits;", with: "split <= splits;" },
    { name: "splits lie on each other", replace: "first + split * stride", with: "first" },
    { name: "splits are not rescaled", replace: "Elements(b), acc", with: "Elements(1.0), acc" },
    { name: "the row is not divided", replace: "whole.acc / whole.l", with: "whole.acc" },
    {
      name: "a row's last key is not its own",
      replace: "rows[row].y / params.split_length",
      with: "(max(rows[row].y, 1u) - 1u) / params.split_length",
    },
    {
      name: "a row has a key too many",
      replace: "rows[row].y / params.split_length",
      with: "(rows[row].y + 1u) / params.split_length",
    },
    {
      name: "all rows have the splits of the first",
      replace: "rows[row].y",
      with: "rows[first_row].y",
    },
    {
      name: "all rows have the records of the first",
      replace: "row * params.max_splits * stride",
      with: "first_row * params.max_splits * stride",
    },
    {
      name: "rows have records of one split",
      replace: "row * params.max_splits * stride",
      with: "row * stride",
    },
    {
      name: "rows of a workgroup lie on each other",
      replace: "(t * SLICES + slice)",
      with: "(slice)",
    },
    {
      name: "every workgroup has the first rows",
      replace: "let row = first_row + v / ROW_VECTORS",
      with: "let row = v / ROW_VECTORS",
    },
    {
      name: "rows beyond the last are written",
      replace: "if first_row + t < params.rows",
      with: "if true",
    },
    {
      name: "outputs beyond a slice are written",
      replace: "if output[i] < end",
      with: "if true",
    },
    {
      name: "every vector of a slice is its first",
      replace: "4u * (v % SLICE_VECTORS)",
      with: "0u",
    },
    {
      name: "the elements of a vector are all its first",
      replace: "vec4f(partials[at], partials[at + 1u], partials[at + 2u], partials[at + 3u])",
      with: "vec4f(partials[at])",
    },
    {
      name: "the slices of a workgroup are all its first",
      replace: "v % ROW_VECTORS / SLICE_VECTORS",
      with: "0u",
      case: 1,
    },
    {
      name: "every workgroup has the slices of the first",
      replace: "first_slice + v % ROW_VECTORS",
      with: "v % ROW_VECTORS",
    },
    {
      name: "every invocation has the workgroup's first slice",
      replace: "(t * SLICES + slice)",
      with: "(t * SLICES)",
      case: 1,
    },
    {
      name: "no barrier before slices are read",
      replace: "workgroupBarrier();\n}",
      with: "}",
      tuning: FORMS.findIndex(({ split }) => split > 1),
    },
    {
      name: "records have no words of their own",
      replace: "record_words = 2u + params.columns",
      with: "record_words = params.columns",
    },
  ],

  inputs(shape, random) {
    const { positions, columns, dtype } = shape;
    const words = splitWords(shape);
    const most = mostSplits(shape);
    // Splits that a row does not have hold what earlier rows left there, and one more what no row
    // did.
    const partials = new Float32Array((positions.length * most + 1) * words).fill(Number.NaN);
    positions.forEach((position, row) => {
      const end = row * most + splitsOf(position);
      for (let at = row * most * words; at < end * words; at += 2 + columns) {
        partials[at] = random() * 8 - 4;
        partials[at + 1] = 1 + random();
        for (let c = 0; c < columns; c++) partials[at + 2 + c] = random() * 2 - 1;
      }
    });
    const { words: packed, scales } = randomWeight(outputsByColumns(shape), random);
    return {
      partials,
      rows: Uint32Array.from(positions.flatMap((position) => [5, position, 6, 7])),
      words: packed,
      ...(scaleWords({ dtype, columns }) > 0 && { scales }),
    };
  },

  reference(shape, { partials, words, scales = new Uint32Array() }) {
    const { columns, outputs, groupRows, positions, rounded } = shape;
    const weight = unpackWeight(outputsByColumns(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    const rows = positions.map((_, row) => {
      const x = mergedRow(shape, partials as Float32Array, row);
      const out = Float64Array.from({ length: outputs }, (_, n) =>
        dot({ weight, columns, row: n }, x, Math.floor(n / groupRows) * columns),
      );
      if (rounded) quantizeRow(out);
      return [...out, ...new Array(PAD).fill(Number.NaN)];
    });
    // A row more, which the kernel does not write.
    return { out: Float64Array.from([...rows.flat(), ...new Array(outputs).fill(Number.NaN)]) };
  },

  bind(recorder, shape, { partials, rows, words, scales, out }, tuning) {
    const { outputs, groupRows, columns, positions, rounded } = shape;
    const { folded = 0, subgroups = 0 } = tuning;
    const outStride = outputs + PAD;
    const common = {
      weight: {
        ...(subgroups === 1 && subgroupsOf(recorder.device)),
        ...outputsByColumns(shape),
        rowsPadded: paddedRows(outputs, outputsByColumns(shape)),
        words: words!,
        ...(scales && { scales }),
      },
      out: out!,
      outStride,
      forms: formsOf(tuning),
    };
    const count = positions.length;
    const splits = { partials: partials!, rows: rows!, splitLength: SPLIT_LENGTH };
    if (folded === 1) {
      const merging = { ...splits, groupRows, roundOutputs: rounded };
      const launch = mergingLinear(recorder, { ...common, ...merging });
      return () => launch!(count, mostSplits(shape));
    }
    const heads = slices(shape);
    const xStride = heads * columns;
    const merged = allocateTensor(recorder.device, count * xStride * 4, "merged");
    const merge = mergeSplits(recorder, {
      ...splits,
      out: merged,
      outStride: xStride,
      heads,
      headDim: columns,
    });
    const launch = linear(recorder, {
      ...common,
      x: merged,
      xStride,
      groups: { rows: groupRows, xStride: columns },
      roundOutputs: rounded,
    });
    return () => {
      merge(count, mostSplits(shape));
      launch(count);
    };
  },
});

/** A row whose splits are put together, slice by slice. */
function mergedRow(shape: Shape, partials: Float32Array, row: number): Float64Array {
  const { columns, positions } = shape;
  const x = new Float64Array(slices(shape) * columns);
  for (let slice = 0; slice < slices(shape); slice++) {
    const records = Array.from(
      { length: splitsOf(positions[row]!) },
      (_, split) => (row * mostSplits(shape) + split) * splitWords(shape) + slice * (2 + columns),
    );
    const top = Math.max(...records.map((at) => partials[at]!));
    let total = 0;
    for (const at of records) total += partials[at + 1]! * Math.exp(partials[at]! - top);
    for (const at of records) {
      const share = Math.exp(partials[at]! - top) / total;
      for (let c = 0; c < columns; c++) x[slice * columns + c]! += share * partials[at + 2 + c]!;
    }
  }
  return x;
}
