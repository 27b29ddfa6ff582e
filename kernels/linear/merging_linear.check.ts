import { allocateTensor } from "../../src/gpu/tensor.ts";
import { mergeSplits } from "../attention/merge_splits.ts";
import { defineCheck } from "../check.ts";
import { formsOf, ONE_ROW_FORMS } from "./check_forms.ts";
import {
  CHECK_LANES,
  dot,
  outputsByColumns,
  quantizeRow,
  randomWeight,
  unpackWeight,
} from "./check_weights.ts";
import { layoutFor, paddedRows, scaleWords, type WeightDtype } from "./layout.ts";
import { linear } from "./linear.ts";
import { mergingLinear } from "./merging_linear.ts";
import { storedBytes } from "./weight_cost.ts";

interface Shape {
  readonly dtype: WeightDtype;
  readonly columns: number;
  readonly outputs: number;
  /** Outputs that share a slice. */
  readonly groupRows: number;
  readonly splits: number;
  readonly rounded: boolean;
}

const lanes = CHECK_LANES;
const SPLIT_LENGTH = 8;
const PAD = 3;
const slices = ({ outputs, groupRows }: Shape) => Math.ceil(outputs / groupRows);
const splitWords = (shape: Shape) => slices(shape) * (2 + shape.columns);

/** A linear over one row whose slices lie in splits. */
export default defineCheck<Shape>({
  name: "linear/linear merged splits",
  cases: [
    // A slice has two workgroups, the second one with outputs for one lane.
    { dtype: "fp8", columns: 140, outputs: 260, groupRows: 130, splits: 3, rounded: false },
    // A workgroup has four slices, the last one two. Columns end inside a piece of the weights.
    { dtype: "fp8", columns: 140, outputs: 192, groupRows: 32, splits: 3, rounded: true },
    { dtype: "f32", columns: 256, outputs: 512, groupRows: 256, splits: 1, rounded: true },
    // Fewer outputs of a slice than a run of lanes has.
    { dtype: "bf16", columns: 20, outputs: 18, groupRows: 6, splits: 4, rounded: false },
    { dtype: "fp8", columns: 512, outputs: 2048, groupRows: 128, splits: 16, rounded: false },
  ],
  tunings: [
    ...ONE_ROW_FORMS.map((form) => ({ folded: 1, ...form })),
    { folded: 0 },
    { folded: 1, split: 4, workgroup: 64 },
    { folded: 1, subgroups: 1 },
    { folded: 0, split: 4, workgroup: 64 },
  ],
  exactAcrossTunings: true,
  tolerance: 1e-5,
  bytes: (shape) => storedBytes(outputsByColumns(shape)) + shape.splits * splitWords(shape) * 4,
  flops: (shape) => 2 * shape.columns * shape.outputs + 4 * shape.splits * splitWords(shape),
  mutants: [
    { name: "one split is left out", replace: "split < splits;", with: "split + 1u < splits;" },
    { name: "one split too many", replace: "split < splits;", with: "split <= splits;" },
    { name: "splits lie on each other", replace: "first + split * stride", with: "first" },
    { name: "splits are not rescaled", replace: "Elements(b), acc", with: "Elements(1.0), acc" },
    { name: "the row is not divided", replace: "row.acc / row.l", with: "row.acc" },
    {
      name: "every vector of a slice is its first",
      replace: "4u * (v % SLICE_VECTORS)",
      with: "0u",
    },
    {
      name: "the elements of a vector are all its first",
      replace: "vec4f(x[at], x[at + 1u], x[at + 2u], x[at + 3u])",
      with: "vec4f(x[at])",
    },
    {
      name: "the slices of a workgroup are all its first",
      replace: "(start + v) / SLICE_VECTORS",
      with: "start / SLICE_VECTORS",
      case: 1,
    },
    {
      name: "every workgroup has the slices of the first",
      replace: "let start = first[0] / MERGED_VECTORS",
      with: "let start = 0u * first[0]",
    },
    {
      name: "every invocation has the workgroup's first slice",
      replace: "XRows(first[0] - start)",
      with: "XRows(0u * first[0])",
      case: 1,
    },
    {
      name: "no barrier before slices are read",
      replace: "workgroupBarrier();\n  return XRows",
      with: "return XRows",
      tuning: ONE_ROW_FORMS.findIndex(({ split }) => split > 1),
    },
    {
      name: "records have no words of their own",
      replace: "* (2u + params.columns)",
      with: "* params.columns",
    },
  ],

  inputs(shape, random) {
    const { splits, columns, dtype } = shape;
    const words = splitWords(shape);
    // A split more, which nobody left.
    const partials = new Float32Array((splits + 1) * words).fill(Number.NaN);
    for (let at = 0; at < splits * words; at += 2 + columns) {
      partials[at] = random() * 8 - 4;
      partials[at + 1] = 1 + random();
      for (let c = 0; c < columns; c++) partials[at + 2 + c] = random() * 2 - 1;
    }
    const { words: packed, scales } = randomWeight(outputsByColumns(shape), random);
    return {
      partials,
      rows: Uint32Array.of(5, splits * SPLIT_LENGTH - 3, 6, 7),
      words: packed,
      ...(scaleWords({ dtype, columns }) > 0 && { scales }),
    };
  },

  reference(shape, { partials, words, scales = new Uint32Array() }) {
    const { columns, outputs, groupRows, splits, rounded } = shape;
    const x = new Float64Array(slices(shape) * columns);
    for (let slice = 0; slice < slices(shape); slice++) {
      const records = Array.from(
        { length: splits },
        (_, split) => split * splitWords(shape) + slice * (2 + columns),
      );
      const top = Math.max(...records.map((at) => partials![at]!));
      let total = 0;
      for (const at of records) total += partials![at + 1]! * Math.exp(partials![at]! - top);
      for (const at of records) {
        const share = Math.exp(partials![at]! - top) / total;
        for (let c = 0; c < columns; c++) x[slice * columns + c]! += share * partials![at + 2 + c]!;
      }
    }
    const weight = unpackWeight(outputsByColumns(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    const out = Float64Array.from({ length: outputs }, (_, n) =>
      dot({ weight, columns, row: n }, x, Math.floor(n / groupRows) * columns),
    );
    if (rounded) quantizeRow(out);
    return { out: Float64Array.of(...out, ...new Array(PAD).fill(Number.NaN)) };
  },

  bind(recorder, shape, { partials, rows, words, scales, out }, tuning) {
    const { outputs, groupRows, columns, splits, rounded } = shape;
    const { folded = 0, subgroups = 0 } = tuning;
    const common = {
      weight: {
        ...(subgroups === 1 && layoutFor(recorder.device)),
        ...outputsByColumns(shape),
        rowsPadded: paddedRows(outputs, lanes),
        words: words!,
        ...(scales && { scales }),
      },
      out: out!,
      outStride: outputs + PAD,
      forms: formsOf({ tokens: 1, ...tuning }),
    };
    if (folded === 1) {
      const merging = { partials: partials!, groupRows, roundOutputs: rounded };
      const launch = mergingLinear(recorder, { ...common, ...merging });
      return () => launch!(splits);
    }
    const heads = slices(shape);
    const outStride = heads * columns;
    const merged = allocateTensor(recorder.device, outStride * 4, "merged");
    const merge = mergeSplits(recorder, {
      ...{ partials: partials!, rows: rows!, out: merged, outStride },
      ...{ heads, headDim: columns, splitLength: SPLIT_LENGTH },
    });
    const launch = linear(recorder, {
      ...{ ...common, x: merged, xStride: outStride },
      groups: { rows: groupRows, xStride: columns },
      oneRow: rounded ? { roundOutputs: true } : undefined,
    });
    return () => {
      merge(1, splits);
      launch(1);
    };
  },
});
