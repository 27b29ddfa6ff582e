import { defineCheck } from "../check.ts";
import { type AddendShape, addendInputs, addendOf, addendOption } from "../norm/reference.ts";
import { joinRows } from "./join_rows.ts";

interface Shape extends AddendShape {
  /** Whether `x` is a residual stream that the final norm comes behind. */
  readonly final: boolean;
  /** Whether both halves are normed. */
  readonly norms: boolean;
  readonly eps: number;
}

/** Rows that are added to each row. */
const readsOf = (form: number) => (form < 2 ? form : form - 1);
/** Where the weights of the hidden rows' norm start: behind a gap. */
const hiddenNormOf = (cols: number) => cols + 5;

/** @returns `row / rms(row) * weight`. */
function norm(row: readonly number[], weight: (c: number) => number, eps: number): number[] {
  const squares = row.reduce((sum, value) => sum + value * value, 0);
  const scale = 1 / Math.sqrt(squares / row.length + eps);
  return row.map((value, c) => value * scale * weight(c));
}

export default defineCheck<Shape>({
  name: "speculation/join_rows",
  cases: [
    { rows: 3, cols: 66, padding: 2, form: 3, scale: 1, final: true, norms: true, eps: 1e-6 },
    { rows: 2, cols: 65, padding: 3, form: 1, scale: 1, final: true, norms: true, eps: 1e-6 },
    { rows: 2, cols: 64, padding: 0, form: 0, scale: 1e-3, final: false, norms: true, eps: 1e-5 }, // eps decides
    { rows: 3, cols: 68, padding: 0, form: 1, scale: 1e-3, final: true, norms: true, eps: 1e-5 },
    { rows: 8, cols: 7168, padding: 0, form: 10, scale: 1, final: true, norms: true, eps: 1e-6 },
    { rows: 3, cols: 66, padding: 2, form: 1, scale: 1, final: true, norms: false, eps: 1e-6 },
    { rows: 3, cols: 65, padding: 3, form: 0, scale: 1, final: false, norms: false, eps: 1e-6 },
  ],
  tunings: [{}],
  tolerance: 6e-6,
  bytes: ({ rows, cols, form, final, norms }) =>
    (rows * cols * (4 + readsOf(form)) + ((final ? 1 : 0) + (norms ? 2 : 0)) * cols) * 4,
  flops: ({ rows, cols, form }) => rows * cols * (8 + 2 * readsOf(form)),
  mutants: [
    {
      name: "the embedding is normed all the same",
      replace: "if NORMS { scale",
      with: "{ scale",
      case: 6,
    },
    {
      name: "weights count all the same",
      replace: "if NORMS { value *=",
      with: "{ value *=",
      case: 6,
    },
    { name: "eps is dropped", replace: "+ params.eps", with: "", case: 2 },
    {
      name: "the final norm's eps is dropped",
      replace: "scale = inverse_rms(sums.x);",
      with: "scale = inverseSqrt(sums.x / f32(params.cols));",
      case: 3,
    },
    { name: "the final weight is dropped", replace: "weighted *= final_weight[c]", with: "" },
    {
      name: "the squares behind the final norm are those in front of it",
      replace: "inverse_rms(sums.y * scale * scale)",
      with: "inverse_rms(sums.x * scale * scale)",
    },
    {
      name: "the embedding has the final norm too",
      replace: "FINAL_NORM && is_hidden",
      with: "FINAL_NORM",
    },
    { name: "norms share their weights", replace: "weights[first_weight + c]", with: "weights[c]" },
    { name: "halves are swapped", replace: "group.y == 1u", with: "group.y == 0u" },
    {
      name: "the embedding is that of the first row",
      replace: "embedded[row * params.stride",
      with: "embedded[0u * params.stride",
    },
    { name: "x is read cols apart", replace: "x[row * params.stride", with: "x[row * params.cols" },
    {
      name: "rows of out are two halves apart",
      replace: "row * params.out_stride",
      with: "row * 2u * params.cols",
      case: 1,
    },
    {
      name: "the addend is left out",
      replace: "value += addend_at(row, c)",
      with: "value += 0.0",
    },
  ],

  inputs(shape, random) {
    const { rows, cols, padding } = shape;
    const { weight, ...inputs } = addendInputs(shape, random);
    const fill = (length: number) => Float32Array.from({ length }, () => random() * 2 - 1);
    return {
      ...inputs,
      final_weight: weight,
      embedded: fill(rows * (cols + padding)).map((value) => value * shape.scale),
      weights: fill(hiddenNormOf(cols) + cols),
    };
  },

  reference({ rows, cols, padding, form, final, norms, eps }, inputs) {
    const stride = cols + padding;
    const outStride = 2 * cols + padding;
    const { embedded, x, final_weight: finalWeight, weights } = inputs;
    // The padding keeps its poison: NaN says that nothing may be written there.
    const out = new Float64Array(rows * outStride).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      const row = (of: (c: number) => number) => Array.from({ length: cols }, (_, c) => of(c));
      const embedding = row((c) => embedded![r * stride + c]!);
      const stream = row((c) => x![r * stride + c]! + addendOf(form, inputs, r, c, stride));
      const hidden = final ? norm(stream, (c) => finalWeight![c]!, eps) : stream;
      const first = hiddenNormOf(cols);
      const half = (values: readonly number[], from: number) =>
        norms ? norm(values, (c) => weights![from + c]!, eps) : values;
      out.set(half(embedding, 0), r * outStride);
      out.set(half(hidden, first), r * outStride + cols);
    }
    return { out };
  },

  bind(recorder, { rows, cols, padding, form, final, norms, eps }, tensors) {
    const launch = joinRows(recorder, {
      embedded: tensors.embedded!,
      x: tensors.x!,
      addend: addendOption(form, tensors.addend!, tensors.slot_weights!),
      finalWeight: final ? tensors.final_weight! : undefined,
      norms: norms ? { weights: tensors.weights!, hidden: hiddenNormOf(cols) } : undefined,
      out: tensors.out!,
      cols,
      stride: cols + padding,
      outStride: 2 * cols + padding,
      eps,
    });
    return () => launch(rows);
  },
});
