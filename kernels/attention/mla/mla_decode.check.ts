import { decodeBf16 } from "../../cache/host_cache.ts";
import { decodeFp8Latents, isFp8Dtype } from "../../cache/host_fp8.ts";
import { mlaFp8EntryBytes } from "../../cache/mla_write.ts";
import { defineCheck } from "../../check.ts";
import { exchangeOptions } from "../check_tuning.ts";
import {
  groupsOf,
  keysOf,
  MLA_ROWS_CASES,
  type MlaRowsShape,
  mlaRowsInputs,
  queryStride,
  runsOf,
  SCALE,
  splitsOf,
  sum,
} from "./check_mla_rows.ts";
import { mlaDecode } from "./mla_decode.ts";

export default defineCheck<MlaRowsShape>({
  name: "attention/mla_decode",
  cases: MLA_ROWS_CASES,
  tunings: [
    { subgroups: 1 },
    {},
    { lanes: 16 },
    { lanes: 32 },
    { subgroups: 1, grouped: 1 },
    { grouped: 1 },
    { lanes: 32, unrolls: 1 },
  ],
  exactAcrossTunings: true,
  tunedCases: [], // test/kernels/attention/attention_tunings has those of the short campaign
  tolerance: 3e-5,
  bytes: (shape) => {
    const { latent, rope, dtype } = shape;
    const plain = (latent + rope) * (dtype === "bf16" ? 2 : 4);
    const keys = sum(runsOf(shape).map((run) => keysOf(shape, run)));
    return keys * (isFp8Dtype(dtype) ? mlaFp8EntryBytes(latent, rope) : plain);
  },
  flops: ({ lengths, heads, latent, rope }) => 2 * sum([...lengths]) * heads * (2 * latent + rope),
  mutants: [
    { name: "queries do not move up", replace: "shift_queries();", with: "", tuning: 6 },
    {
      name: "the last column is left out",
      replace: "if COLUMNS > 3u {",
      with: "if false {",
      tuning: 6,
      case: 5,
    },
    {
      name: "what the first invocation read is taken for everything",
      replace: "subgroupShuffle(mine, reader)",
      with: "subgroupShuffle(mine, 0u)",
      ofSubgroups: true,
    },
    {
      name: "the first invocation's weights are taken for those of all",
      replace: "subgroupShuffle(mine, owner)",
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
    {
      name: "every workgroup has as many heads",
      replace: "let head_count = min(HEADS, params.heads - first_head);",
      with: "let head_count = HEADS;",
      case: 4,
    },
    { name: "the scale is dropped", replace: "* params.scale", with: "" },
    {
      name: "keys are not looked up",
      replace: "page_tables[page.x], page_tables[page.y]",
      with: "page.x, page.y",
    },
    { name: "every row reads the first table", replace: "rows[members.x].w", with: "0u" },
    { name: "the place in the page is ignored", replace: "+ token % params.page_size", with: "" },
    {
      name: "the newest key is not seen",
      replace: "let length = rows[members.x].y + 1u",
      with: "let length = max(rows[members.x].y, 1u)",
    },
    {
      name: "a key too many is seen",
      replace: "rows[members.x].y + 1u",
      with: "rows[members.x].y + 2u",
    },
    {
      name: "the rope part is not turned",
      replace: "rows[row].y * (ROPE",
      with: "0u * (ROPE",
    },
    { name: "the nope part is not skipped", replace: "+ params.nope +", with: "+" },
    {
      name: "the query's stride is ignored",
      replace: "row * params.q_stride",
      with: "row * params.heads",
    },
    {
      name: "the rope part is not scored",
      replace: "params.key_quads",
      with: "params.value_quads",
    },
    {
      name: "keys have the first run's scale",
      replace: "value_scales(at, run);\n    for",
      with: "value_scales(at, 0u);\n    for",
      case: 2,
    },
    { name: "values have the first run's scale", replace: "/ RUN_QUADS;", with: "* 0u;", case: 2 },
    {
      name: "the scales of keys are dropped",
      replace: "fma(codes[i], of_keys, sums[i])",
      with: "sums[i] + codes[i]",
      case: 2,
    },
    {
      name: "the scales of values are dropped",
      replace: "values[k] *= of_keys[k];",
      with: "",
      case: 2,
    },
    {
      name: "the rope part starts elsewhere",
      replace: "at + VALUE_QUADS + VALUE_RUNS +",
      with: "at + VALUE_QUADS +",
      case: 2,
    },
    { name: "E5M2 has E4M3's bias", replace: "BIAS = 15u", with: "BIAS = 7u", case: 3 },
    { name: "tiles are not rescaled", replace: "c] * shrinks[i]", with: "c]" },
    {
      name: "weights are not rescaled",
      replace: "fma(weight_sums[w], shrinks[i],",
      with: "fma(weight_sums[w], 1.0,",
    },
    { name: "splits all start at key 0", replace: "group.z * params.split_length", with: "0u" },
    {
      name: "splits lie on each other",
      replace: "params.max_splits + split",
      with: "params.max_splits",
    },
    { name: "the output is not divided", replace: "value / seen[own].y", with: "value", case: 1 },
    {
      name: "the second head tile reads the first",
      replace: "= HEADS * group.y",
      with: "= 0u * group.y",
      case: 5,
    },
    {
      name: "no barrier before the weights are used",
      replace: "run];\n    }\n  }\n  workgroupBarrier();",
      with: "run];\n    }\n  }",
      tuning: 3,
    },
    {
      name: "reduce: splits are not rescaled",
      replace: "Elements(b), acc * a)",
      with: "Elements(1.0), acc * a)",
    },
    {
      name: "reduce: the last split is left out",
      replace: "split < splits",
      with: "split + 1u < splits",
    },
  ],

  inputs: mlaRowsInputs,

  reference(shape, inputs) {
    const { lengths, heads, latent, rope, nope, pageSize, dtype } = shape;
    const { q_absorbed, q, rows, page_tables, rope_table } = inputs;
    const width = latent + rope;
    const stored = inputs.cache as Uint32Array;
    const cache = isFp8Dtype(dtype)
      ? decodeFp8Latents(stored, shape, dtype)
      : dtype === "bf16"
        ? decodeBf16(stored)
        : inputs.cache!;
    // One row more than is asked for: it must keep its poison.
    const size = lengths.length * heads * latent;
    const out = new Float64Array(size + heads * latent).fill(Number.NaN, size);
    lengths.forEach((length, r) => {
      for (let h = 0; h < heads; h++) {
        const query = new Float64Array(width);
        const o = (r * heads + h) * latent;
        for (let c = 0; c < latent; c++) query[c] = q_absorbed![o + c]!;
        for (let i = 0; i < rope; i += 2) {
          const at = r * queryStride(shape) + h * (nope + rope) + nope + i;
          const turn = (length - 1) * rope + i;
          const [cos, sin] = [rope_table![turn]!, rope_table![turn + 1]!];
          query[latent + i] = q![at]! * cos - q![at + 1]! * sin;
          query[latent + i + 1] = q![at]! * sin + q![at + 1]! * cos;
        }
        const starts: number[] = [];
        const scores: number[] = [];
        for (let key = 0; key < length; key++) {
          const page = page_tables![rows![r * 4 + 3]! + Math.floor(key / pageSize)]!;
          const start = (page * pageSize + (key % pageSize)) * width;
          let score = 0;
          for (let c = 0; c < width; c++) score += query[c]! * cache[start + c]!;
          starts.push(start);
          scores.push(score * SCALE);
        }
        const top = Math.max(...scores);
        const total = sum(scores.map((score) => Math.exp(score - top)));
        scores.forEach((score, key) => {
          const weight = Math.exp(score - top) / total;
          for (let c = 0; c < latent; c++) out[o + c]! += weight * cache[starts[key]! + c]!;
        });
      }
    });
    return { out };
  },

  bind(recorder, shape, tensors, tuning) {
    const { lengths, heads, latent, rope, nope, pageSize, splitLength, dtype } = shape;
    const launch = mlaDecode(recorder, {
      queryAbsorbed: tensors.q_absorbed!,
      query: tensors.q!,
      queryStride: queryStride(shape),
      cache: tensors.cache!,
      cacheDtype: dtype,
      rows: tensors.rows!,
      pageTables: tensors.page_tables!,
      ropeTable: tensors.rope_table!,
      groups: tensors.groups!,
      partials: tensors.partials!,
      out: tensors.out!,
      heads,
      latent,
      rope,
      nope,
      pageSize,
      splitLength,
      scale: SCALE,
      ...exchangeOptions(recorder.device, tuning),
    });
    const groups = tuning.grouped === 1 ? groupsOf(shape).length / 2 : 0;
    return () => launch(lengths.length, splitsOf(shape), groups);
  },
});
