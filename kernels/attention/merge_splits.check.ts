import { defineCheck } from "../check.ts";
import { quantizeRow } from "../linear/checks/check_weights.ts";
import { mergeSplits } from "./merge_splits.ts";

interface Shape {
  /** Keys in front of each row, its own included. */
  readonly lengths: readonly number[];
  readonly heads: number;
  readonly headDim: number;
  readonly splitLength: number;
  /** 0: all keys are seen. */
  readonly window: number;
  readonly sinks: boolean;
  readonly rounded?: boolean;
}

const PAD = 4;
const outStride = ({ heads, headDim }: Shape) => heads * headDim + PAD;
const splitsOf = ({ lengths, splitLength }: Shape) => Math.ceil(Math.max(...lengths) / splitLength);

/** Splits of a row: [first, end). */
function seenSplits({ splitLength, window }: Shape, length: number): [number, number] {
  const first = window === 0 ? 0 : Math.max(0, length - window);
  return [Math.floor(first / splitLength), Math.ceil(length / splitLength)];
}

function floats(shape: Shape): number {
  let splits = 0;
  for (const length of shape.lengths) {
    const [first, end] = seenSplits(shape, length);
    splits += end - first;
  }
  return splits * shape.heads * (2 + shape.headDim);
}

export default defineCheck<Shape>({
  name: "attention/merge_splits",
  cases: [
    // One key; one whole split; a key more; several. 66 elements are no multiple of the workgroup.
    { lengths: [1, 8, 9, 30], heads: 3, headDim: 22, splitLength: 8, window: 0, sinks: true },
    // Windows of less than a split: over two, of a whole number less a key, from the first key of a
    // split, from the last one, and of a row that has fewer keys.
    { lengths: [33, 32, 31, 30, 4], heads: 2, headDim: 8, splitLength: 8, window: 7, sinks: false },
    // Groups of 128 columns: a whole one, which are of two heads and a half, and a short one.
    {
      lengths: [20, 3],
      heads: 3,
      headDim: 52,
      splitLength: 8,
      window: 0,
      sinks: true,
      rounded: true,
    },
    { lengths: [8192], heads: 16, headDim: 128, splitLength: 256, window: 0, sinks: false },
  ],
  tunings: [{}],
  tolerance: 1e-6,
  bytes: (shape) => (floats(shape) + shape.lengths.length * shape.heads * shape.headDim) * 4,
  flops: (shape) => 4 * floats(shape),
  mutants: [
    {
      name: "sums are not rescaled",
      replace: "fma(record_word(at + 1u), b, l * a)",
      with: "record_word(at + 1u) + l",
    },
    { name: "what came before is not rescaled", replace: "acc * a)", with: "acc)" },
    { name: "the output is not divided", replace: "acc / divisor", with: "acc + 0.0 * divisor" },
    { name: "the sink is left out", replace: "l + exp(sinks[head] - m)", with: "l" },
    { name: "every head has the first sink", replace: "sinks[head]", with: "sinks[0]" },
    { name: "heads lie on each other", replace: "* stride + head *", with: "* stride + 0u *" },
    { name: "splits lie on each other", replace: "first + split * stride", with: "first" },
    {
      name: "rows lie on each other",
      replace: "row * params.max_splits",
      with: "0u * params.max_splits",
    },
    {
      name: "the output's stride is ignored",
      replace: "row * params.out_stride",
      with: "row * params.heads * params.head_dim",
    },
    {
      name: "a split too many",
      replace: "(seen + params.split_length - 1u)",
      with: "(seen + params.split_length)",
    },
    {
      name: "a window from the last key of a split begins in the next",
      replace: "(seen - min(seen, params.window))",
      with: "(seen - min(seen, params.window) + 1u)",
      case: 1,
    },
    {
      name: "a window from the first key of a split begins in the one before",
      replace: "(seen - min(seen, params.window))",
      with: "(max(seen - min(seen, params.window), 1u) - 1u)",
      case: 1,
    },
    { name: "nothing is rounded", replace: "if ROUND {", with: "if false {", case: 2 },
    {
      name: "a group's scale is that of its first element",
      replace: "bitcast<u32>(abs(value))",
      with: "bitcast<u32>(select(0.0, abs(value), lane == 0u))",
      case: 2,
    },
    {
      name: "the largest magnitude is not waited for",
      replace: "workgroupBarrier();\n    let scale",
      with: "let scale",
      case: 2,
    },
    { name: "hidden splits are read", replace: "min(seen, params.window)", with: "seen", case: 1 },
  ],

  inputs(shape, random) {
    const { lengths, heads, headDim } = shape;
    const maxSplits = splitsOf(shape);
    // Records of splits that a row does not have are NaN.
    const records = lengths.length * maxSplits * heads;
    const partials = new Float32Array(records * (2 + headDim)).fill(Number.NaN);
    const rows = new Uint32Array(lengths.length * 4);
    lengths.forEach((length, r) => {
      rows.set([5, length - 1, 6, 7], r * 4);
      const [first, end] = seenSplits(shape, length);
      for (let record = first * heads; record < end * heads; record++) {
        const at = (r * maxSplits * heads + record) * (2 + headDim);
        partials[at] = random() * 8 - 4;
        partials[at + 1] = 1 + random();
        for (let c = 0; c < headDim; c++) partials[at + 2 + c] = random() * 2 - 1;
      }
    });
    return { partials, rows, sinks: Float32Array.from({ length: heads }, () => random() * 8 - 4) };
  },

  reference(shape, { partials, sinks }) {
    const { lengths, heads, headDim } = shape;
    const out = new Float64Array(lengths.length * outStride(shape)).fill(Number.NaN);
    lengths.forEach((length, r) => {
      for (let h = 0; h < heads; h++) {
        const [first, end] = seenSplits(shape, length);
        const splits = Array.from(
          { length: end - first },
          (_, s) => ((r * splitsOf(shape) + first + s) * heads + h) * (2 + headDim),
        );
        const top = Math.max(...splits.map((s) => partials![s]!));
        let total = shape.sinks ? Math.exp(sinks![h]! - top) : 0;
        for (const s of splits) total += partials![s + 1]! * Math.exp(partials![s]! - top);
        for (let c = 0; c < headDim; c++) {
          let sum = 0;
          for (const s of splits) sum += partials![s + 2 + c]! * Math.exp(partials![s]! - top);
          out[r * outStride(shape) + h * headDim + c] = sum / total;
        }
      }
      const begin = r * outStride(shape);
      if (shape.rounded) quantizeRow(out.subarray(begin, begin + heads * headDim));
    });
    return { out };
  },

  bind(recorder, shape, { partials, rows, sinks, out }) {
    const { lengths, heads, headDim, splitLength, window } = shape;
    const launch = mergeSplits(recorder, {
      partials: partials!,
      rows: rows!,
      out: out!,
      outStride: outStride(shape),
      heads,
      headDim,
      splitLength,
      window: window === 0 ? undefined : window,
      sinks: shape.sinks ? sinks! : undefined,
      roundsMerged: shape.rounded,
    });
    return () => launch(lengths.length, splitsOf(shape));
  },
});
