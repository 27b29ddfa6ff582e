import { defineCheck } from "../check.ts";
import {
  storedEntry,
  turnedQueries,
  type VectorShape,
  vectorInputs,
  vectorOptions,
} from "./gqa_vectors_reference.ts";
import { gqaEntryBytes, gqaWrite } from "./gqa_write.ts";

interface Shape extends VectorShape {
  readonly rows: number;
}

const PAD = 4;
const POSITIONS = 50;

const queryStride = ({ heads, headDim }: Shape) => heads * headDim + PAD;

export default defineCheck<Shape>({
  name: "cache/gqa_write",
  cases: [
    // Part of a head rotates; parts of a sum of three pairs; more work than invocations.
    {
      rows: 3,
      heads: 6,
      kvHeads: 3,
      headDim: 20,
      rotary: 12,
      norm: true,
      scale: 1,
      eps: 1e-6,
      dtype: "bf16",
    },
    // The smallest rotation; fewer units than parts.
    {
      rows: 2,
      heads: 5,
      kvHeads: 5,
      headDim: 8,
      rotary: 4,
      norm: true,
      scale: 1,
      eps: 1e-6,
      dtype: "f32",
    },
    // Heads so small that eps decides the answer.
    {
      rows: 2,
      heads: 7,
      kvHeads: 1,
      headDim: 64,
      rotary: 64,
      norm: true,
      scale: 1e-3,
      eps: 1e-5,
      dtype: "f32",
    },
    // No norm.
    {
      rows: 2,
      heads: 2,
      kvHeads: 2,
      headDim: 12,
      rotary: 12,
      norm: false,
      scale: 1,
      eps: 1e-6,
      dtype: "f32",
    },
    // FP8: a part rotates; all of it; nothing but one unit.
    {
      rows: 3,
      heads: 6,
      kvHeads: 3,
      headDim: 20,
      rotary: 12,
      norm: false,
      scale: 1,
      eps: 1e-6,
      dtype: "fp8_e4m3",
    },
    {
      rows: 2,
      heads: 2,
      kvHeads: 2,
      headDim: 32,
      rotary: 32,
      norm: false,
      scale: 1,
      eps: 1e-6,
      dtype: "fp8_e5m2",
    },
    {
      rows: 5,
      heads: 3,
      kvHeads: 1,
      headDim: 136,
      rotary: 4,
      norm: false,
      scale: 1e-3,
      eps: 1e-6,
      dtype: "fp8_e4m3",
    },
    {
      rows: 64,
      heads: 16,
      kvHeads: 8,
      headDim: 128,
      rotary: 128,
      norm: true,
      scale: 1,
      eps: 1e-6,
      dtype: "bf16",
    },
  ],
  tunings: [{}],
  tolerance: 2e-6,
  bytes: ({ rows, heads, kvHeads, headDim, dtype }) =>
    rows * (headDim * (8 * heads + 8 * kvHeads) + gqaEntryBytes(dtype, kvHeads, headDim)),
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
      replace: "}\n  workgroupBarrier();\n\n  let entry",
      with: "}\n\n  let entry",
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
    const rows = new Uint32Array(shape.rows * 4);
    for (let r = 0; r < shape.rows; r++) {
      // Slots in an order of their own, with holes.
      const slot = 2 * (shape.rows - r) - 1;
      rows.set([7, Math.floor(random() * POSITIONS), slot, 9], r * 4);
    }
    return vectorInputs(shape, rows, random);
  },

  reference(shape, inputs) {
    const { rows, kvHeads, headDim, dtype } = shape;
    const width = gqaEntryBytes(dtype, kvHeads, headDim) / 4;
    const values = new Float64Array(2 * rows * width).fill(Number.NaN);
    const words = new Uint32Array(2 * rows * width).fill(0xdeadbeef);
    const cache = dtype === "f32" ? values : words;
    const query = new Float64Array(rows * queryStride(shape)).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      cache.set(storedEntry(shape, inputs, r), inputs.rows![r * 4 + 2]! * width);
      query.set(turnedQueries(shape, inputs, r), r * queryStride(shape));
    }
    return { query, cache };
  },

  bind(recorder, shape, tensors) {
    const query = { query: tensors.query!, queryStride: queryStride(shape) };
    const launch = gqaWrite(recorder, { ...vectorOptions(shape, tensors), ...query });
    return () => launch(shape.rows);
  },
});
