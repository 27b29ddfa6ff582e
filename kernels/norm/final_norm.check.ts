import { defineCheck } from "../check.ts";
import { finalNorm } from "./final_norm.ts";
import { type AddendShape, addendInputs, addendOf, addendOption } from "./reference.ts";

interface Shape extends AddendShape {
  readonly wanted: readonly number[];
  readonly eps: number;
}

/** Rows that are added to each row. */
const readsOf = (form: number) => (form < 2 ? form : form - 1);

export default defineCheck<Shape>({
  name: "norm/final_norm",
  cases: [
    { rows: 4, wanted: [3, 1], cols: 66, padding: 2, form: 3, scale: 1, eps: 1e-6 },
    { rows: 2, wanted: [1, 0], cols: 65, padding: 3, form: 1, scale: 1, eps: 1e-6 },
    { rows: 3, wanted: [2], cols: 64, padding: 0, form: 0, scale: 1e-3, eps: 1e-5 }, // eps decides
    { rows: 8, wanted: [7, 3, 5], cols: 7168, padding: 0, form: 10, scale: 1, eps: 1e-6 },
  ],
  tunings: [{}],
  tolerance: 4e-6,
  bytes: ({ wanted, cols, form }) => (wanted.length * cols * (2 + readsOf(form)) + cols) * 4,
  flops: ({ wanted, cols, form }) => wanted.length * cols * (4 + 2 * readsOf(form)),
  mutants: [
    { name: "eps is dropped", replace: "+ params.eps", with: "", case: 2 },
    { name: "weight is dropped", replace: "* weight[c]", with: "" },
    { name: "rows are taken in order", replace: "row_indices[group.x]", with: "group.x" },
    {
      name: "the addend is that of the output row",
      replace: "addend_at(row, c)",
      with: "addend_at(group.x, c)",
    },
    { name: "x is read cols apart", replace: "x[row * params.stride", with: "x[row * params.cols" },
    {
      name: "out is written cols apart",
      replace: "group.x * params.stride",
      with: "group.x * params.cols",
    },
    {
      name: "the addend is left out",
      replace: "addend[row * params.stride + c]",
      with: "0.0",
      case: 1,
    },
  ],

  inputs: (shape, random) => ({
    ...addendInputs(shape, random),
    row_indices: Uint32Array.from(shape.wanted),
  }),

  reference({ wanted, cols, padding, form, eps }, inputs) {
    const stride = cols + padding;
    // The padding keeps its poison: NaN says that nothing may be written there.
    const out = new Float64Array(wanted.length * stride).fill(Number.NaN);
    wanted.forEach((r, i) => {
      const row = Array.from(
        { length: cols },
        (_, c) => inputs.x![r * stride + c]! + addendOf(form, inputs, r, c, stride),
      );
      const squares = row.reduce((sum, value) => sum + value * value, 0);
      const scale = 1 / Math.sqrt(squares / cols + eps);
      row.forEach((value, c) => {
        out[i * stride + c] = value * scale * inputs.weight![c]!;
      });
    });
    return { out };
  },

  bind(recorder, { wanted, cols, padding, form, eps }, tensors) {
    const launch = finalNorm(recorder, {
      rowIndices: tensors.row_indices!,
      x: tensors.x!,
      addend: addendOption(form, tensors.addend!, tensors.slot_weights!),
      weight: tensors.weight!,
      out: tensors.out!,
      cols,
      stride: cols + padding,
      eps,
    });
    return () => launch(wanted.length);
  },
});
