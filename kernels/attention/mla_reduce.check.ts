import { defineCheck } from "../check.ts";
import { mlaReduce } from "./mla_reduce.ts";

interface Shape {
  /** Keys each row sees. */
  readonly lengths: readonly number[];
  readonly heads: number;
  readonly width: number;
  readonly splitLength: number;
}

const splitsOf = ({ lengths, splitLength }: Shape) => Math.ceil(Math.max(...lengths) / splitLength);
const floats = ({ lengths, heads, width, splitLength }: Shape) =>
  lengths.reduce((sum, length) => sum + Math.ceil(length / splitLength), 0) * heads * (2 + width);

export default defineCheck<Shape>({
  name: "attention/mla_reduce",
  cases: [
    // One key; one whole split; a key more; several. 66 elements are no multiple of the workgroup.
    { lengths: [1, 8, 9, 30], heads: 3, width: 22, splitLength: 8 },
    { lengths: [5000, 9000], heads: 128, width: 512, splitLength: 2048 }, // the 671B model's heads
  ],
  tunings: [{}],
  tolerance: 1e-6,
  bytes: (shape) => (floats(shape) + shape.lengths.length * shape.heads * shape.width) * 4,
  flops: (shape) => 4 * floats(shape),
  mutants: [
    {
      name: "sums are not rescaled",
      replace: "fma(partials[at + 1u], b, l * a)",
      with: "partials[at + 1u] + l",
    },
    { name: "what came before is not rescaled", replace: "acc * a)", with: "acc)" },
    { name: "the output is not divided", replace: "acc / l", with: "acc" },
    { name: "heads lie on each other", replace: "* params.heads + head;", with: "* params.heads;" },
    {
      name: "splits lie on each other",
      replace: "params.max_splits + split)",
      with: "params.max_splits)",
    },
    {
      name: "rows lie on each other",
      replace: "row * params.max_splits",
      with: "0u * params.max_splits",
    },
    {
      name: "a split too many",
      replace: "rows[row].y / params.split_length",
      with: "(rows[row].y + 1u) / params.split_length",
    },
  ],

  inputs(shape, random) {
    const { lengths, heads, width, splitLength } = shape;
    const maxSplits = splitsOf(shape);
    // Records of splits that a row does not have are NaN.
    const partials = new Float32Array(lengths.length * maxSplits * heads * (2 + width)).fill(
      Number.NaN,
    );
    const rows = new Uint32Array(lengths.length * 4);
    lengths.forEach((length, r) => {
      rows.set([5, length - 1, 6, 7], r * 4);
      for (let split = 0; split < Math.ceil(length / splitLength); split++) {
        for (let h = 0; h < heads; h++) {
          const at = ((r * maxSplits + split) * heads + h) * (2 + width);
          partials[at] = random() * 8 - 4;
          partials[at + 1] = 1 + random();
          for (let c = 0; c < width; c++) partials[at + 2 + c] = random() * 2 - 1;
        }
      }
    });
    return { partials, rows };
  },

  reference(shape, { partials }) {
    const { lengths, heads, width, splitLength } = shape;
    const out = new Float64Array(lengths.length * heads * width);
    lengths.forEach((length, r) => {
      for (let h = 0; h < heads; h++) {
        const at = (split: number) => ((r * splitsOf(shape) + split) * heads + h) * (2 + width);
        const splits = Array.from({ length: Math.ceil(length / splitLength) }, (_, s) => at(s));
        const top = Math.max(...splits.map((s) => partials![s]!));
        let total = 0;
        for (const s of splits) total += partials![s + 1]! * Math.exp(partials![s]! - top);
        for (const s of splits) {
          const weight = Math.exp(partials![s]! - top) / total;
          for (let c = 0; c < width; c++)
            out[(r * heads + h) * width + c]! += weight * partials![s + 2 + c]!;
        }
      }
    });
    return { out };
  },

  bind(recorder, shape, { partials, rows, out }) {
    const { lengths, heads, width, splitLength } = shape;
    const launch = mlaReduce(recorder, {
      partials: partials!,
      rows: rows!,
      out: out!,
      heads,
      width,
      splitLength,
    });
    return () => launch(lengths.length, splitsOf(shape));
  },
});
