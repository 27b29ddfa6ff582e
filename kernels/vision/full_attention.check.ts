import { defineCheck } from "../check.ts";
import { addAttentionItems, fullAttention } from "./full_attention.ts";

interface Shape {
  readonly rows: number;
  readonly heads: number;
  readonly headDim: number;
  /** Elements between queries and keys, keys and values, and rows. */
  readonly gap: number;
  /** Of queries: large ones make one key count alone. */
  readonly scale: number;
  /** Rows of each window, all of them together. Default: they are one. */
  readonly windows?: readonly number[];
}

function itemsOf({ rows, windows = [rows] }: Shape): number[] {
  // One that is not launched.
  const words = [0, 1, 0, 1];
  let first = 0;
  for (const length of windows) {
    addAttentionItems(words, first, first + length);
    first += length;
  }
  return words;
}

const columnsOf = ({ heads, headDim, gap }: Shape) => {
  const part = heads * headDim + gap;
  return { keyColumn: part, valueColumn: 2 * part, qkvStride: 3 * part };
};

export default defineCheck<Shape>({
  name: "vision/full_attention",
  cases: [
    { rows: 19, heads: 2, headDim: 16, gap: 4, scale: 4 },
    { rows: 67, heads: 3, headDim: 16, gap: 0, scale: 4 },
    { rows: 40, heads: 1, headDim: 16, gap: 0, scale: 400 },
    { rows: 1, heads: 1, headDim: 4, gap: 0, scale: 1 },
    { rows: 100, heads: 2, headDim: 40, gap: 0, scale: 4, windows: [17, 1, 66, 16] },
    { rows: 130, heads: 2, headDim: 72, gap: 0, scale: 4 },
  ],
  tunings: [{}],
  tolerance: 1e-4,
  bytes: ({ rows, heads, headDim }) => rows * heads * headDim * 16,
  flops: ({ rows, heads, headDim, windows = [rows] }) =>
    windows.reduce((sum, length) => sum + length ** 2, 0) * heads * headDim * 4,
  mutants: [
    { name: "the scale is left out", replace: "* params.scale", with: "" },
    {
      name: "later keys are left out",
      replace: "first < item.w; first += KEYS",
      with: "first < min(KEYS, item.w); first += KEYS",
    },
    {
      name: "the last keys are left out",
      replace: "min(KEYS, item.w - first)",
      with: "min(KEYS, item.w - first - 1u)",
    },
    {
      name: "all heads are the first",
      replace: "let head = group.y * HEAD_QUADS;",
      with: "let head = 0u;",
    },
    { name: "values are keys", replace: "at + params.value_quad", with: "at + params.key_quad" },
    { name: "keys are queries", replace: "at + params.key_quad", with: "at" },
    { name: "earlier sums do not shrink", replace: "sums[d] *= shrink;", with: "", case: 2 },
    { name: "the total does not shrink", replace: "total *= shrink;", with: "", case: 2 },
    {
      name: "scores are not kept from overflow",
      replace: "best = max(best, scores[j]);",
      with: "best = 0.0;",
      case: 2,
    },
    { name: "keys start at the first", replace: "first = item.z", with: "first = 0u", case: 4 },
    {
      name: "rows start at the first",
      replace: "item.x + invocation",
      with: "invocation",
      case: 4,
    },
    {
      name: "items start at the first",
      replace: "params.first_item + group.x",
      with: "group.x",
      case: 4,
    },
    { name: "sums are not divided", replace: "sums[d] / total", with: "sums[d]" },
    {
      name: "rows are written without their heads",
      replace: "row * params.heads * HEAD_QUADS",
      with: "row * HEAD_QUADS",
    },
  ],

  inputs(shape, random) {
    const { keyColumn, qkvStride } = columnsOf(shape);
    return {
      items: Uint32Array.from(itemsOf(shape)),
      qkv: Float32Array.from({ length: shape.rows * qkvStride }, (_, i) =>
        i % qkvStride < keyColumn ? shape.scale * (random() - 0.5) : random() - 0.5,
      ),
    };
  },

  reference(shape, inputs) {
    const { rows, heads, headDim } = shape;
    const { keyColumn, valueColumn, qkvStride } = columnsOf(shape);
    const qkv = inputs.qkv!;
    const out = new Float64Array(rows * heads * headDim);
    const { windows = [rows] } = shape;
    const windowOf = windows.flatMap((length, i) => new Array<number>(length).fill(i));
    for (let h = 0; h < heads; h++) {
      for (let r = 0; r < rows; r++) {
        const seen = windowOf.flatMap((window, s) => (window === windowOf[r] ? [s] : []));
        const scores = seen.map((s) => {
          let sum = 0;
          for (let d = 0; d < headDim; d++) {
            const c = h * headDim + d;
            sum += qkv[r * qkvStride + c]! * qkv[s * qkvStride + keyColumn + c]!;
          }
          return sum / Math.sqrt(headDim);
        });
        const highest = Math.max(...scores);
        const weights = scores.map((score) => Math.exp(score - highest));
        const total = weights.reduce((sum, weight) => sum + weight, 0);
        for (let d = 0; d < headDim; d++) {
          const c = h * headDim + d;
          let sum = 0;
          seen.forEach((s, i) => {
            sum += weights[i]! * qkv[s * qkvStride + valueColumn + c]!;
          });
          out[r * heads * headDim + c] = sum / total;
        }
      }
    }
    return { out };
  },

  bind(recorder, shape, tensors) {
    const { rows, heads, headDim, windows = [rows] } = shape;
    const launch = fullAttention(recorder, {
      ...columnsOf(shape),
      qkv: tensors.qkv!,
      items: tensors.items!,
      out: tensors.out!,
      heads,
      headDim,
    });
    const count = itemsOf(shape).length / 4 - 1;
    const pairs = windows.reduce((sum, length) => sum + length ** 2, 0);
    return () => launch({ first: 1, count, rows, pairs });
  },
});
