import { defineCheck } from "../check.ts";
import { joinSums } from "./join_sums.ts";

interface Shape {
  readonly ranks: number;
  readonly parts: number;
  readonly rows: number;
  readonly outputs: number;
  readonly stride: number;
  readonly outColumn: number;
  readonly bias: boolean;
}

const outStrideOf = ({ outColumn, outputs }: Shape) => outColumn + outputs + 3;

/** In f32, neighbours first: the reference is the order itself. */
function tree(leaves: readonly number[]): number {
  let level = [...leaves];
  while (level.length > 1) {
    level = Array.from({ length: Math.ceil(level.length / 2) }, (_, i) =>
      Math.fround(level[2 * i]! + (level[2 * i + 1] ?? 0)),
    );
  }
  return level[0]!;
}

export default defineCheck<Shape>({
  name: "linear/join_sums",
  cases: [
    { ranks: 2, parts: 3, rows: 3, outputs: 67, stride: 72, outColumn: 5, bias: true },
    { ranks: 1, parts: 1, rows: 2, outputs: 5, stride: 8, outColumn: 0, bias: false },
    { ranks: 16, parts: 1, rows: 1, outputs: 64, stride: 64, outColumn: 0, bias: true },
    { ranks: 4, parts: 7, rows: 2, outputs: 3, stride: 4, outColumn: 1, bias: false },
    { ranks: 32, parts: 1, rows: 2, outputs: 130, stride: 132, outColumn: 0, bias: false },
    { ranks: 8, parts: 1, rows: 32, outputs: 7168, stride: 7168, outColumn: 0, bias: false },
  ],
  tunings: [{}],
  // The order is the promise: the bits are those of the tree.
  tolerance: 0,
  bytes: ({ ranks, parts, rows, outputs }) => (ranks * parts + 1) * rows * outputs * 4,
  flops: ({ ranks, parts, rows, outputs }) => ranks * parts * rows * outputs,
  mutants: [
    {
      name: "neighbours wait at the wrong level",
      replace: "(leaf & below) == below",
      with: "(leaf & below) == 0u",
    },
    { name: "leaves without a part are read", replace: "leaf < count {", with: "true {" },
    { name: "the last part is left out", replace: "leaf < count {", with: "leaf + 1u < count {" },
    { name: "ranks follow each other without rows", replace: "* params.rows + r", with: "+ r" },
    { name: "every row is the first", replace: "* params.rows + r)", with: "* params.rows)" },
    { name: "parts are the first", replace: "+ leaf % params.parts", with: "" },
    {
      name: "rows are read too close",
      replace: "row * params.stride",
      with: "row * params.outputs",
    },
    {
      name: "rows are written too close",
      replace: "r * params.out_stride",
      with: "r * params.outputs",
    },
    { name: "out_column is ignored", replace: "+ params.out_column", with: "" },
    { name: "outputs beyond the last are written", replace: "n >= params.outputs", with: "false" },
    { name: "the bias is left out", replace: "total += bias[n];", with: "" },
    { name: "the bias is the first output's", replace: "+= bias[n]", with: "+= bias[0]" },
    { name: "too few leaves", replace: "2u * count - 1u", with: "count", case: 3 },
    {
      name: "a level is missing",
      replace: "const LEVELS = 5u",
      with: "const LEVELS = 4u",
      case: 4,
    },
  ],

  inputs: ({ ranks, parts, rows, stride, outputs, bias }, random) => ({
    // Of very different sizes, so that the order shows in the bits.
    // One rank more than is asked for.
    sums: Float32Array.from(
      { length: (ranks + 1) * parts * rows * stride },
      () => (random() - 0.5) * 2 ** Math.floor(random() * 8),
    ),
    ...(bias && { bias: Float32Array.from({ length: outputs }, () => random() - 0.5) }),
  }),

  reference(shape, { sums, bias }) {
    const { ranks, parts, rows, outputs, stride, outColumn } = shape;
    const outStride = outStrideOf(shape);
    // One row more than is asked for: it must keep its poison.
    const out = new Float32Array((rows + 1) * outStride).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      for (let n = 0; n < outputs; n++) {
        const leaves = Array.from({ length: ranks * parts }, (_, leaf) => {
          const row = (Math.floor(leaf / parts) * rows + r) * parts + (leaf % parts);
          return sums![row * stride + n]!;
        });
        const count = 2 ** Math.ceil(Math.log2(leaves.length));
        const padded = [...leaves, ...Array<number>(count - leaves.length).fill(0)];
        out[r * outStride + outColumn + n] = tree(padded) + (bias?.[n] ?? 0);
      }
    }
    return { out };
  },

  bind(recorder, shape, { sums, bias, out }) {
    const { rows, outColumn, bias: _, ...sizes } = shape;
    const launch = joinSums(recorder, {
      ...sizes,
      sums: sums!,
      bias,
      out: out!,
      outColumn,
      outStride: outStrideOf(shape),
    });
    return () => launch(rows);
  },
});
