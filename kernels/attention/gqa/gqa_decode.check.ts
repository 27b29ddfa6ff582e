import { defineCheck } from "../../check.ts";
import { exchangeOptions } from "../check_tuning.ts";
import { gqaDecode } from "./gqa_decode.ts";
import {
  type GqaShape,
  gqaCacheBytes,
  gqaGroups,
  gqaInputs,
  gqaOptions,
  gqaPairs,
  gqaReference,
  gqaRows,
  gqaSplits,
} from "./gqa_reference.ts";

/** One row of each sequence. */
const lengths = (...keys: readonly number[]) => keys.map((n) => ({ first: n - 1, rows: 1 }));

export default defineCheck<GqaShape>({
  name: "attention/gqa_decode",
  cases: [
    // A tile and a bit; one key; three splits, the last one short. Two rows
    // and six of one sequence.
    {
      sequences: [...lengths(150), { first: 0, rows: 2 }, { first: 525, rows: 6 }],
      heads: 10,
      kvHeads: 2,
      headDim: 20,
      pageSize: 3,
      splitLength: 256,
      dtype: "bf16",
      sinks: true,
    },
    // A window: of a part of a tile, of two tiles, of a split and a bit. Some splits are hidden.
    {
      sequences: lengths(140, 300, 700, 20),
      heads: 2,
      kvHeads: 2,
      headDim: 32,
      pageSize: 16,
      splitLength: 128,
      dtype: "f32",
      window: 150,
    },
    // One split: written without a reduce. A group of seven, columns for more than every lane.
    {
      sequences: lengths(128, 129, 255),
      heads: 14,
      kvHeads: 2,
      headDim: 68,
      pageSize: 1,
      splitLength: 256,
      dtype: "f32",
      sinks: true,
    },
    // Scales, each a different one, of keys and of values.
    {
      sequences: lengths(150, 1, 400),
      heads: 6,
      kvHeads: 2,
      headDim: 20,
      pageSize: 3,
      splitLength: 256,
      dtype: "fp8_e4m3",
    },
    {
      sequences: lengths(140, 300),
      heads: 2,
      kvHeads: 2,
      headDim: 68,
      pageSize: 16,
      splitLength: 128,
      dtype: "fp8_e5m2",
      window: 150,
      sinks: true,
    },
    // The largest group, in two tiles, and head.
    {
      sequences: lengths(300, 9),
      heads: 16,
      kvHeads: 1,
      headDim: 256,
      pageSize: 16,
      splitLength: 256,
      dtype: "bf16",
      window: 40,
      sinks: true,
    },
    // Windows of a group's rows that begin in two tiles, and in two splits. The first case's kernels.
    {
      sequences: [
        { first: 276, rows: 4 },
        { first: 404, rows: 4 },
      ],
      heads: 10,
      kvHeads: 2,
      headDim: 20,
      pageSize: 16,
      splitLength: 256,
      dtype: "bf16",
      window: 150,
    },
    {
      sequences: lengths(512),
      heads: 16,
      kvHeads: 8,
      headDim: 128,
      pageSize: 64,
      splitLength: 256,
      dtype: "bf16",
    },
    {
      sequences: lengths(8192),
      heads: 16,
      kvHeads: 8,
      headDim: 128,
      pageSize: 64,
      splitLength: 256,
      dtype: "bf16",
    },
  ],
  tunings: [
    { subgroups: 1 },
    {},
    { lanes: 32 },
    { lanes: 16 },
    { subgroups: 1, grouped: 1 },
    { grouped: 1 },
  ],
  // The short campaign compares tunings in test/kernels/attention/attention_tunings.
  tunedCases: [],
  exactAcrossTunings: true,
  tolerance: 3e-5,
  bytes: gqaCacheBytes,
  flops: (shape) => 4 * gqaPairs(shape) * shape.heads * shape.headDim,
  mutants: [
    {
      name: "what the first invocation read is taken for everything",
      replace: "subgroupShuffle(mine, reader)",
      with: "subgroupShuffle(mine, 0u)",
      ofSubgroups: true,
    },
    {
      name: "every group is the first",
      replace: "groups[group.x]",
      with: "groups[0]",
      tuning: 4,
    },
    { name: "every row is its group's first", replace: "query / HEADS", with: "0u", tuning: 4 },
    {
      name: "every row of a group sees what the first sees",
      replace: "min(i / HEADS, asked.row_count - 1u)",
      with: "0u",
      tuning: 4,
    },
    { name: "the scale is dropped", replace: "* params.scale", with: "" },
    {
      name: "pages are not looked up",
      replace: "page_tables[page.x], page_tables[page.y]",
      with: "page.x, page.y",
    },
    {
      name: "the place in the page is ignored",
      replace: "+ token % params.page_size",
      with: "",
    },
    {
      name: "every row reads the first table",
      replace: "].w, kv_head, first",
      with: "].w * 0u, kv_head, first",
    },
    {
      name: "the newest key is not seen",
      replace: "let seen_end = asked.length +",
      with: "let seen_end = max(asked.length, 2u) - 1u +",
    },
    {
      name: "a key too many is seen",
      replace: "let seen_end = asked.length +",
      with: "let seen_end = 1u + asked.length +",
    },
    {
      name: "the window is ignored",
      replace: "end - min(end, params.window)",
      with: "0u",
      case: 1,
    },
    {
      name: "a group begins where its last row's window does",
      replace: "let first = length - min(length, params.window);",
      with: "let first = length + members.y - 1u - min(length + members.y - 1u, params.window);",
      case: 6,
      tuning: 4,
    },
    {
      name: "a group begins in the tile of its last row's window",
      replace: "first / KEY_TILE * KEY_TILE",
      with: "(first + members.y - 1u) / KEY_TILE * KEY_TILE",
      case: 6,
      tuning: 4,
    },
    {
      name: "a group begins in the split of its last row's window",
      replace: "if end <= first {",
      with: "if end <= first + members.y - 1u {",
      case: 6,
      tuning: 4,
    },
    {
      name: "every head has the first one's keys",
      replace: "+ keys.head * VECTOR_QUADS",
      with: "",
      case: 1,
    },
    {
      name: "entries lie too close",
      replace: "2u * params.kv_heads * VECTOR_QUADS",
      with: "params.kv_heads * VECTOR_QUADS",
    },
    {
      name: "keys are taken for values",
      replace: "at + params.kv_heads * VECTOR_QUADS + quad",
      with: "at + quad",
    },
    {
      name: "the query's stride is ignored",
      replace: "(params.q_stride / 4u)",
      with: "(params.heads * HEAD_QUADS)",
    },
    { name: "the heads of a tile are one", replace: "query % HEADS", with: "0u", case: 2 },
    {
      name: "every tile has the same heads",
      replace: "% head_tiles",
      with: "* 0u",
      case: 5,
    },
    { name: "sums are not rescaled", replace: "c] * shrinks[i]", with: "c]", case: 2 },
    {
      name: "weights are not rescaled",
      replace: "fma(weight_sums[w], shrinks[i],",
      with: "fma(weight_sums[w], 1.0,",
      case: 2,
    },
    {
      name: "only the first columns are summed",
      replace: "c * LANES + lane",
      with: "lane",
      case: 2,
    },
    {
      name: "only the first of four weights is added",
      replace: "(weight.x + weight.y) + (weight.z + weight.w)",
      with: "weight.x",
    },
    {
      name: "an invocation's chains of weights are not joined",
      replace: "weight_sums[w] += weight_sums[w + half * QUERIES]",
      with: "weight_sums[w] += 0.0",
    },
    {
      name: "the invocations' weights are not joined",
      replace: "subgroupShuffleXor(all[i], half)",
      with: "0.0",
      ofSubgroups: true,
    },
    {
      name: "the invocations' weights are not joined in memory",
      replace: "+= of_lanes[(l + half) * QUERIES + i]",
      with: "+= 0.0",
      tuning: 2,
    },
    {
      name: "no barrier before the weights are joined",
      replace: "= sums[i]; }\n  workgroupBarrier();",
      with: "= sums[i]; }",
      tuning: 2,
    },
    { name: "the sink is left out", replace: "l + exp(sinks[head] - m)", with: "l" },
    { name: "every head has the first sink", replace: "sinks[head]", with: "sinks[0]" },
    {
      name: "no barrier before the weights are used",
      replace: "run];\n    }\n  }\n  workgroupBarrier();",
      with: "run];\n    }\n  }",
      tuning: 2,
    },
    {
      name: "the first invocation's weights are taken for those of all",
      replace: "subgroupShuffle(mine, owner)",
      with: "subgroupShuffle(mine, 0u)",
      ofSubgroups: true,
    },
    {
      name: "keys beyond four are not scored",
      replace: "4u * (r * LANES + lane)",
      with: "4u * lane",
      case: 2,
    },
    { name: "splits all start at key 0", replace: "group.z * params.split_length", with: "0u" },
    {
      name: "splits lie on each other",
      replace: "params.max_splits + split",
      with: "params.max_splits",
    },
    { name: "the output is not divided", replace: "value / total", with: "value", case: 2 },
    {
      name: "the output's stride is ignored",
      replace: "var at = row * params.out_stride",
      with: "var at = row * params.heads * HEAD_DIM",
      case: 2,
    },
    { name: "the scales of keys are dropped", replace: "sums[i] *= of_keys;", with: "", case: 3 },
    {
      name: "the scales of values are dropped",
      replace: "values[k] *= of_keys[k];",
      with: "",
      case: 3,
    },
    {
      name: "the scales of keys are taken for those of values",
      replace: "scales_at(at + vec4u(params.kv_heads * VECTOR_QUADS))",
      with: "scales_at(at)",
      case: 3,
    },
    {
      name: "scales lie elsewhere",
      replace: "at + vec4u(HEAD_QUADS)",
      with: "at",
      case: 3,
    },
    {
      name: "codes have no sign",
      replace: "codes & vec4u(0x80u)",
      with: "codes & vec4u(0u)",
      case: 3,
    },
    {
      name: "E5M2 is read as E4M3",
      replace: "FRACTION_BITS = 2u",
      with: "FRACTION_BITS = 3u",
      case: 4,
    },
    {
      name: "a split is written as if it were all",
      replace: "params.direct == 0u",
      with: "false",
    },
  ],

  inputs(shape, random) {
    const { heads, headDim } = shape;
    const partials = gqaRows(shape) * gqaSplits(shape) * heads * (2 + headDim);
    return {
      ...gqaInputs(shape, random),
      groups: gqaGroups(shape),
      // A record that is read without being written shows.
      partials: new Float32Array(partials).fill(Number.NaN),
    };
  },

  reference: (shape, inputs) => ({ out: gqaReference(shape, inputs) }),

  bind(recorder, shape, tensors, tuning) {
    const launch = gqaDecode(recorder, {
      ...gqaOptions(shape, tensors),
      partials: tensors.partials!,
      groups: tensors.groups!,
      ...exchangeOptions(recorder.device, tuning),
    });
    const groups = tuning.grouped === 1 ? gqaGroups(shape).length / 2 : 0;
    return () => launch(gqaRows(shape), gqaSplits(shape), groups);
  },
});
