import { encodeBf16 } from "../../src/dtype.ts";
import { defineCheck, type HostArrays } from "../check.ts";
import type { CacheDtype } from "./cache_kernel.ts";
import { gqaFp8EntryBytes, gqaWrite } from "./gqa_write.ts";
import { bf16Words } from "./host_cache.ts";
import { fp8Runs, fp8Scale, isFp8Dtype, nearTieOfFp8 } from "./host_fp8.ts";

interface Shape {
  readonly rows: number;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly rotary: number;
  readonly norm: boolean;
  readonly scale: number;
  readonly eps: number;
  readonly dtype: CacheDtype;
}

const PAD = 4;
const POSITIONS = 50;

/** Values, queries, keys, with columns of nobody between them. */
function columns({ heads, kvHeads, headDim }: Shape) {
  const value = 2;
  const query = value + kvHeads * headDim + PAD;
  const key = query + heads * headDim + 2;
  return { value, query, key, stride: key + kvHeads * headDim + PAD };
}

/** Where the weights of keys begin: behind those of queries, and some of nobody. */
const keyNorm = ({ headDim }: Shape) => headDim + PAD;

const queryStride = ({ heads, headDim }: Shape) => heads * headDim + PAD;

/** True where the error of a rotation in f32 could round to the other neighbour. */
const nearTieOfBf16 = (value: number) => encodeBf16(value - 1e-6) !== encodeBf16(value + 1e-6);

/** One head, normed and rotated in halves. */
function turned(shape: Shape, inputs: HostArrays, r: number, column: number, weight: number) {
  const { headDim, rotary, norm, eps } = shape;
  const { projected, rows, rope_table } = inputs;
  const at = r * columns(shape).stride + column;
  let squares = 0;
  for (let c = 0; c < headDim; c++) squares += projected![at + c]! ** 2;
  const scale = 1 / Math.sqrt(squares / headDim + eps);
  const x = Array.from({ length: headDim }, (_, c) =>
    norm ? projected![at + c]! * scale * inputs.norms![weight + c]! : projected![at + c]!,
  );
  const half = rotary / 2;
  return x.map((value, c) => {
    if (c >= rotary) return value;
    const turn = rows![r * 4 + 1]! * rotary + 2 * (c % half);
    const [cos, sin] = [rope_table![turn]!, rope_table![turn + 1]!];
    return c < half ? value * cos - x[c + half]! * sin : x[c - half]! * sin + value * cos;
  });
}

/** The cache entry of one row before it is rounded. */
function entry(shape: Shape, inputs: HostArrays, r: number): number[] {
  const { kvHeads, headDim } = shape;
  const { key, value, stride } = columns(shape);
  const values: number[] = [];
  for (let h = 0; h < kvHeads; h++) {
    values.push(...turned(shape, inputs, r, key + h * headDim, keyNorm(shape)));
  }
  const at = r * stride + value;
  for (let c = 0; c < kvHeads * headDim; c++) values.push(inputs.projected![at + c]!);
  return values;
}

const storedBytes = (dtype: CacheDtype, kvHeads: number, headDim: number) =>
  isFp8Dtype(dtype)
    ? gqaFp8EntryBytes(kvHeads, headDim)
    : 2 * kvHeads * headDim * (dtype === "bf16" ? 2 : 4);

/**
 * For FP8, whose scales have to be the same to the bit: numbers on a grid so coarse that f32 rotates
 * them without an error.
 */
const onGrid = (value: number, steps: number) => Math.round(value * steps) / steps;

/** Places in the entry of values so close to a tie that f32 and f64 may round them differently. */
function nearTies(shape: Shape, written: readonly number[]): number[] {
  const { dtype, headDim } = shape;
  if (!isFp8Dtype(dtype)) {
    return written.flatMap((value, i) => (nearTieOfBf16(value) ? [i] : []));
  }
  return written.flatMap((value, i) => {
    const first = i - (i % headDim);
    const scale = fp8Scale(written.slice(first, first + headDim), dtype);
    return value !== 0 && nearTieOfFp8(value / scale, dtype) ? [i] : [];
  });
}

/** The entry as its cache holds it. */
function stored({ dtype, headDim }: Shape, written: readonly number[]) {
  if (isFp8Dtype(dtype)) return fp8Runs(written, headDim, dtype);
  return dtype === "bf16" ? bf16Words(written) : Float64Array.from(written);
}

export default defineCheck<Shape>({
  name: "cache/gqa_write",
  cases: [
    // Part of a head rotates; parts of a sum of three pairs; more work than invocations.
    {
      ...{ rows: 3, heads: 6, kvHeads: 3, headDim: 20, rotary: 12 },
      ...{ norm: true, scale: 1, eps: 1e-6, dtype: "bf16" },
    },
    // The smallest rotation; fewer units than parts.
    {
      ...{ rows: 2, heads: 5, kvHeads: 5, headDim: 8, rotary: 4 },
      ...{ norm: true, scale: 1, eps: 1e-6, dtype: "f32" },
    },
    // Heads so small that eps decides the answer.
    {
      ...{ rows: 2, heads: 7, kvHeads: 1, headDim: 64, rotary: 64 },
      ...{ norm: true, scale: 1e-3, eps: 1e-5, dtype: "f32" },
    },
    // No norm.
    {
      ...{ rows: 2, heads: 2, kvHeads: 2, headDim: 12, rotary: 12 },
      ...{ norm: false, scale: 1, eps: 1e-6, dtype: "f32" },
    },
    // FP8: a part rotates; all of it; nothing but one unit.
    {
      ...{ rows: 3, heads: 6, kvHeads: 3, headDim: 20, rotary: 12 },
      ...{ norm: false, scale: 1, eps: 1e-6, dtype: "fp8_e4m3" },
    },
    {
      ...{ rows: 2, heads: 2, kvHeads: 2, headDim: 32, rotary: 32 },
      ...{ norm: false, scale: 1, eps: 1e-6, dtype: "fp8_e5m2" },
    },
    {
      ...{ rows: 5, heads: 3, kvHeads: 1, headDim: 136, rotary: 4 },
      ...{ norm: false, scale: 1e-3, eps: 1e-6, dtype: "fp8_e4m3" },
    },
    {
      ...{ rows: 64, heads: 16, kvHeads: 8, headDim: 128, rotary: 128 },
      ...{ norm: true, scale: 1, eps: 1e-6, dtype: "bf16" },
    },
  ],
  tunings: [{}],
  tolerance: 2e-6,
  bytes: ({ rows, heads, kvHeads, headDim, dtype }) =>
    rows * (headDim * (8 * heads + 8 * kvHeads) + storedBytes(dtype, kvHeads, headDim)),
  flops: ({ rows, heads, kvHeads, headDim, rotary }) =>
    rows * (heads + kvHeads) * (4 * headDim + 3 * rotary),
  mutants: [
    { name: "eps is dropped", replace: "+ params.eps", with: "", case: 2 },
    { name: "a part is not squared", replace: "part < PARTS;", with: "part < PARTS - 1u;" },
    { name: "odd elements are not squared", replace: "fma(x.y, x.y, ", with: "(" },
    { name: "a weight is dropped", replace: "* norms[weights + near]", with: "" },
    { name: "the far weight is dropped", replace: "* norms[weights + far]", with: "" },
    { name: "keys have the weights of queries", replace: "params.key_norm / 2u", with: "0u" },
    {
      name: "rows are read too close",
      replace: "own.row * params.projected_stride",
      with: "own.row * (params.projected_stride - 2u)",
    },
    {
      name: "rows are written too close",
      replace: "(params.query_stride / 2u)",
      with: "(params.heads * HEAD_PAIRS)",
    },
    { name: "queries start elsewhere", replace: "params.query_column +", with: "" },
    { name: "keys start elsewhere", replace: "params.key_column +", with: "" },
    { name: "values start elsewhere", replace: "params.value_column +", with: "" },
    { name: "the position is ignored", replace: "rows[own.row].y *", with: "0u *" },
    { name: "the slot is ignored", replace: "rows[own.row].z *", with: "own.row *" },
    {
      name: "entries lie too close",
      replace: "(2u * params.kv_heads * VECTOR_QUADS)",
      with: "(params.kv_heads * VECTOR_QUADS)",
    },
    { name: "the rotation turns back", replace: "-(pair.y * turn.y)", with: "pair.y * turn.y" },
    {
      name: "neighbours rotate",
      replace: "vec2f(x.x, y.x), rope",
      with: "vec2f(x.x, x.y), rope",
    },
    {
      name: "both elements of a pair turn alike",
      replace: "turns + 2u * unit + 1u",
      with: "turns + 2u * unit",
    },
    { name: "nothing passes unchanged", replace: "unit < ROTARY / 4u", with: "true" },
    {
      name: "the values are not written",
      replace: "i < 2u * own.keys *",
      with: "i < own.keys *",
    },
    { name: "BF16 is cut off", replace: "bits + 0x7fffu + ((bits >> 16u) & 1u)", with: "bits" },
    {
      name: "every vector has the first one's scale",
      replace: "atomicLoad(&largest[vector])",
      with: "atomicLoad(&largest[0u])",
      case: 4,
    },
    {
      name: "half of a vector is not looked at",
      replace: "max(bits.z, bits.w)",
      with: "bits.x",
      case: 4,
    },
    {
      name: "vectors lie too close",
      replace: "head * VECTOR_QUADS",
      with: "head * HEAD_QUADS",
      case: 4,
    },
    { name: "no scale is written", replace: "if quad == 0u", with: "if quad == end", case: 4 },
    {
      name: "a unit's pairs are swapped",
      replace: "select(unit.y, unit.x,",
      with: "select(unit.x, unit.y,",
      case: 4,
    },
    {
      name: "FP8 is cut off",
      replace: "((1u << (CODE_SHIFT - 1u)) - 1u)",
      with: "(0u)",
      case: 4,
    },
    { name: "small codes are cut off", replace: "vec4u(round(", with: "vec4u((", case: 4 },
    { name: "E5M2 has E4M3's bias", replace: "BIAS = 15u", with: "BIAS = 7u", case: 5 },
    {
      name: "no barrier before the scales are used",
      replace: "}\n  workgroupBarrier();\n\n  for (var i = lane; i < end",
      with: "}\n\n  for (var i = lane; i < end",
      case: 4,
    },
    {
      name: "no barrier before the sums are joined",
      replace: "workgroupBarrier();",
      with: "",
      case: 1,
    },
  ],

  inputs(shape, random) {
    const { rows, heads, kvHeads, headDim, rotary, scale, dtype } = shape;
    const { key, value, query, stride } = columns(shape);
    const fp8 = isFp8Dtype(dtype);
    const draw = () => (fp8 ? onGrid(random() * 2 - 1, 4096) : random() * 2 - 1) * scale;
    // Of many sizes, the smallest codes' too.
    const drawValue = () => (fp8 ? draw() * 2 ** -Math.floor(36 * random() ** 3) : draw());
    // What the kernel must not read is NaN.
    const projected = new Float32Array(rows * stride).fill(Number.NaN);
    const norms = new Float32Array(keyNorm(shape) + headDim).fill(Number.NaN);
    for (const first of [0, keyNorm(shape)]) {
      for (let c = 0; c < headDim; c++) norms[first + c] = 0.5 + random();
    }
    const inputs = {
      projected,
      norms,
      rows: new Uint32Array(rows * 4),
      rope_table: Float32Array.from({ length: POSITIONS * rotary }, () => {
        const turn = random() * 2 - 1;
        return fp8 ? onGrid(turn, 4) : turn;
      }),
    };
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < heads * headDim; c++) projected[r * stride + query + c] = draw();
      for (let c = 0; c < kvHeads * headDim; c++) projected[r * stride + key + c] = draw();
      for (let c = 0; c < kvHeads * headDim; c++) projected[r * stride + value + c] = drawValue();
      // Slots in an order of their own, with holes.
      // A value of zeros.
      if (r === 1) projected.fill(0, r * stride + value, r * stride + value + headDim);
      inputs.rows.set([7, Math.floor(random() * POSITIONS), 2 * (rows - r) - 1, 9], r * 4);
    }
    // Draw again what lies so close to a tie that f32 and f64 may round it differently.
    for (let again = true; again; ) {
      again = false;
      for (let r = 0; r < rows; r++) {
        for (const i of nearTies(shape, entry(shape, inputs, r))) {
          again = true;
          const keys = kvHeads * headDim;
          if (i < keys) projected[r * stride + key + i] = draw();
          else projected[r * stride + value + i - keys] = drawValue();
        }
      }
    }
    return inputs;
  },

  reference(shape, inputs) {
    const { rows, heads, kvHeads, headDim, dtype } = shape;
    const width = storedBytes(dtype, kvHeads, headDim) / 4;
    const values = new Float64Array(2 * rows * width).fill(Number.NaN);
    const words = new Uint32Array(2 * rows * width).fill(0xdeadbeef);
    const cache = dtype === "f32" ? values : words;
    const query = new Float64Array(rows * queryStride(shape)).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      cache.set(stored(shape, entry(shape, inputs, r)), inputs.rows![r * 4 + 2]! * width);
      for (let h = 0; h < heads; h++) {
        const column = columns(shape).query + h * headDim;
        query.set(turned(shape, inputs, r, column, 0), r * queryStride(shape) + h * headDim);
      }
    }
    return { query, cache };
  },

  bind(recorder, shape, tensors) {
    const { rows, heads, kvHeads, headDim, rotary, norm, eps, dtype } = shape;
    const { key, value, query, stride } = columns(shape);
    const launch = gqaWrite(recorder, {
      projected: tensors.projected!,
      projectedStride: stride,
      queryColumn: query,
      keyColumn: key,
      valueColumn: value,
      norms: norm ? { weights: tensors.norms!, key: keyNorm(shape) } : undefined,
      eps,
      rows: tensors.rows!,
      ropeTable: tensors.rope_table!,
      rotary,
      query: tensors.query!,
      queryStride: queryStride(shape),
      cache: tensors.cache!,
      cacheDtype: dtype,
      heads,
      kvHeads,
      headDim,
    });
    return () => launch(rows);
  },
});
