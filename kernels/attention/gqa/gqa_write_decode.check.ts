import {
  storedEntry,
  turnedQueries,
  type VectorShape,
  vectorInputs,
  vectorOptions,
} from "../../cache/gqa_vectors_reference.ts";
import { gqaEntryBytes } from "../../cache/gqa_write.ts";
import { defineCheck, type HostArrays } from "../../check.ts";
import { exchangeOptions } from "../check_tuning.ts";
import {
  type GqaShape,
  gqaCacheBytes,
  gqaInputs,
  gqaOptions,
  gqaPairs,
  gqaReference,
  gqaRows,
  gqaSplits,
} from "./gqa_reference.ts";
import { gqaWriteDecode } from "./gqa_write_decode.ts";

type Shape = GqaShape & VectorShape;

/** One row of each sequence. */
const lengths = (...keys: readonly number[]) => keys.map((n) => ({ first: n - 1, rows: 1 }));

/** Where the entry of row `r` lies, in elements or words of the cache. */
function entryPlace({ kvHeads, headDim, dtype }: Shape, { rows }: HostArrays, r: number) {
  const width = gqaEntryBytes(dtype, kvHeads, headDim) / 4;
  return { start: rows![r * 4 + 2]! * width, width };
}

export default defineCheck<Shape>({
  name: "attention/gqa_write_decode",
  cases: [
    // A tile and a bit; one key; three splits, the last one short. A part of a head rotates.
    {
      sequences: lengths(150, 1, 525),
      pageSize: 3,
      splitLength: 256,
      sinks: true,
      heads: 10,
      kvHeads: 2,
      headDim: 20,
      rotary: 12,
      dtype: "bf16",
      norm: true,
      scale: 1,
      eps: 1e-2,
    },
    // A window: of a part of a tile, of two tiles, of a split and a bit. Some splits are hidden.
    {
      sequences: lengths(140, 300, 700, 20),
      pageSize: 16,
      splitLength: 128,
      window: 150,
      heads: 2,
      kvHeads: 2,
      headDim: 32,
      rotary: 32,
      dtype: "f32",
      norm: false,
      scale: 1,
      eps: 1e-6,
    },
    // One split: written without a reduce. More units than invocations, columns for more.
    {
      sequences: lengths(128, 129, 255, 3),
      pageSize: 1,
      splitLength: 256,
      sinks: true,
      heads: 6,
      kvHeads: 2,
      headDim: 68,
      rotary: 4,
      dtype: "f32",
      norm: true,
      scale: 1,
      eps: 1e-6,
    },
    // Scales, each a different one, of keys and of values.
    {
      sequences: lengths(150, 1, 400),
      pageSize: 3,
      splitLength: 256,
      heads: 6,
      kvHeads: 2,
      headDim: 20,
      rotary: 12,
      dtype: "fp8_e4m3",
      norm: false,
      scale: 1,
      eps: 1e-6,
    },
    {
      sequences: lengths(140, 300),
      pageSize: 16,
      splitLength: 128,
      window: 150,
      sinks: true,
      heads: 2,
      kvHeads: 2,
      headDim: 68,
      rotary: 32,
      dtype: "fp8_e5m2",
      norm: false,
      scale: 1,
      eps: 1e-6,
    },
    // The largest group of a workgroup.
    {
      sequences: lengths(300, 9),
      pageSize: 16,
      splitLength: 256,
      window: 40,
      sinks: true,
      heads: 16,
      kvHeads: 2,
      headDim: 128,
      rotary: 128,
      dtype: "bf16",
      norm: true,
      scale: 1,
      eps: 1e-6,
    },
    {
      sequences: lengths(512),
      pageSize: 64,
      splitLength: 256,
      heads: 16,
      kvHeads: 8,
      headDim: 128,
      rotary: 128,
      dtype: "bf16",
      norm: true,
      scale: 1,
      eps: 1e-6,
    },
  ],
  // The last two: two tiles of three heads and of two, the last one not full; three of two.
  tunings: [
    { subgroups: 1 },
    {},
    { lanes: 32 },
    { lanes: 16 },
    { lanes: 16, rowHeads: 4 },
    { subgroups: 1, rowHeads: 2 },
  ],
  tunedCases: [0, 3],
  exactAcrossTunings: true,
  tolerance: 3e-5,
  bytes: (shape) => {
    const { heads, kvHeads, headDim, dtype } = shape;
    const own = 4 * headDim * (heads + 2 * kvHeads) + gqaEntryBytes(dtype, kvHeads, headDim);
    return gqaCacheBytes(shape) + gqaRows(shape) * own;
  },
  flops: (shape) => {
    const { heads, kvHeads, headDim, rotary } = shape;
    const own = (heads + kvHeads) * (4 * headDim + 3 * rotary);
    return 4 * gqaPairs(shape) * heads * headDim + gqaRows(shape) * own;
  },
  mutants: [
    { name: "every query is the first", replace: "vector * HEAD_PAIRS + 2u", with: "2u" },
    {
      name: "every key head has the first one's queries",
      replace: "part.asked.first_head, queries",
      with: "0u, queries",
    },
    {
      name: "every tile has the first one's queries",
      replace: "part.asked.first_head, queries",
      with: "part.keys.head * (params.heads / params.kv_heads), queries",
      tuning: 4,
    },
    {
      name: "no tile writes the entry",
      replace: "if !SHARES || is_first",
      with: "if !SHARES",
      tuning: 4,
    },
    {
      name: "the key that is kept is another",
      replace: "select(NO_KEY, part.asked.length - 1u, is_last)",
      with: "select(NO_KEY, part.keys.first, is_last)",
      tuning: 4,
    },
    {
      name: "every split has the kept key",
      replace: "select(NO_KEY, part.asked.length - 1u, is_last)",
      with: "part.keys.end - 1u",
      tuning: 4,
    },
    {
      name: "the kept value is the key",
      replace: "select(at - (params.kv_heads - 1u) * VECTOR_QUADS, at, at < VECTOR_QUADS)",
      with: "at % VECTOR_QUADS",
      tuning: 4,
    },
    {
      name: "the kept value has the key's place",
      replace: "kept[vector * VECTOR_QUADS + quad] = stored",
      with: "kept[quad] = stored",
      tuning: 5,
      case: 3,
    },
    { name: "no key is written", replace: "select(0u, 1u, is_last)", with: "0u" },
    { name: "the value is not written", replace: "i < 2u * own.keys *", with: "i < own.keys *" },
    {
      name: "every head writes to the first one's place",
      replace: "own.first_key + vector",
      with: "vector",
    },
    {
      name: "every head writes the first one's key",
      replace: "own.first_key + i",
      with: "i",
    },
    {
      name: "values lie where keys do",
      replace: "select(params.kv_heads - own.keys, 0u, vector < own.keys)",
      with: "select(0u, 0u, vector < own.keys)",
    },
    { name: "the slot is ignored", replace: "rows[own.row].z *", with: "own.row *" },
    { name: "the position is ignored", replace: "rows[own.row].y *", with: "0u *" },
    {
      name: "every row is the first",
      replace: "own.row * params.projected_stride",
      with: "0u * params.projected_stride",
    },
    { name: "queries start elsewhere", replace: "params.query_column +", with: "" },
    { name: "keys start elsewhere", replace: "params.key_column +", with: "" },
    { name: "values start elsewhere", replace: "params.value_column +", with: "" },
    { name: "keys have the weights of queries", replace: "params.key_norm / 2u", with: "0u" },
    { name: "eps is dropped", replace: "+ params.eps", with: "" },
    { name: "nothing passes unchanged", replace: "unit < ROTARY / 4u", with: "true" },
    { name: "halves of a quad are swapped", replace: "values.xy", with: "values.zw" },
    {
      name: "no barrier before the sums are joined",
      replace: "add_squares(own, lane);\n    workgroupBarrier();",
      with: "add_squares(own, lane);",
      tuning: 2,
      case: 5,
    },
    {
      name: "no barrier before queries are read and the key is written",
      replace: "workgroupBarrier();\n  write_vectors",
      with: "write_vectors",
      tuning: 2,
      case: 2,
    },
    {
      name: "no barrier before the key is read",
      replace: "else { storageBarrier(); }",
      with: "",
      tuning: 2,
      case: 2,
    },
    {
      name: "every vector has the first one's scale",
      replace: "atomicLoad(&largest[vector])",
      with: "atomicLoad(&largest[0u])",
      case: 3,
    },
    { name: "no scale is written", replace: "if quad == 0u", with: "if quad == end", case: 3 },
    { name: "E5M2 has E4M3's bias", replace: "BIAS = 15u", with: "BIAS = 7u", case: 4 },
    {
      name: "a split is written as if it were all",
      replace: "params.direct == 0u",
      with: "false",
    },
    {
      name: "splits lie on each other",
      replace: "params.max_splits + split",
      with: "params.max_splits",
    },
    {
      name: "the window is ignored",
      replace: "end - min(end, params.window)",
      with: "0u",
      case: 1,
    },
    { name: "the sink is left out", replace: "l + exp(sinks[head] - m)", with: "l" },
    { name: "the scale is dropped", replace: "* params.scale", with: "" },
    {
      name: "the output's stride is ignored",
      replace: "var at = row * params.out_stride",
      with: "var at = row * params.heads * HEAD_DIM",
      case: 2,
    },
  ],

  inputs(shape, random) {
    const { q: _, rows, cache, ...attention } = gqaInputs(shape, random);
    const { pageSize, heads, headDim } = shape;
    for (let r = 0; r < rows.length / 4; r++) {
      const [position, firstPage] = [rows[r * 4 + 1]!, rows[r * 4 + 3]!];
      const page = attention.page_tables[firstPage + Math.floor(position / pageSize)]!;
      rows[r * 4 + 2] = page * pageSize + (position % pageSize);
      // The row's own key and value are not there yet: not a number in every dtype.
      const { start, width } = entryPlace(shape, { rows }, r);
      new Uint32Array(cache.buffer, cache.byteOffset).fill(0xffffffff, start, start + width);
    }
    const partials = gqaRows(shape) * gqaSplits(shape) * heads * (2 + headDim);
    return {
      ...vectorInputs(shape, rows, random),
      ...attention,
      cache,
      // A record that is read without being written shows.
      partials: new Float32Array(partials).fill(Number.NaN),
    };
  },

  reference(shape, inputs) {
    const cache = inputs.cache!.slice() as Float32Array | Uint32Array;
    const stride = gqaOptions(shape, {}).queryStride;
    const q = new Float32Array(gqaRows(shape) * stride);
    for (let r = 0; r < gqaRows(shape); r++) {
      cache.set(storedEntry(shape, inputs, r), entryPlace(shape, inputs, r).start);
      q.set(turnedQueries(shape, inputs, r), r * stride);
    }
    return { cache, out: gqaReference(shape, { ...inputs, cache, q }) };
  },

  bind(recorder, shape, tensors, tuning) {
    const { query: _, queryStride: __, ...attention } = gqaOptions(shape, tensors);
    const launch = gqaWriteDecode(recorder, {
      ...attention,
      ...vectorOptions(shape, tensors),
      partials: tensors.partials!,
      ...exchangeOptions(recorder.device, tuning),
    });
    if (launch === undefined)
      throw new Error("Cannot check gqa_write_decode: the shape does not fit");
    return () => launch(gqaRows(shape), gqaSplits(shape));
  },
});
