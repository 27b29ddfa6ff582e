import { defineCheck } from "../../check.ts";
import { exchangeOptions } from "../check_tuning.ts";
import { GQA_PREFILL_ROW_TILE, gqaPrefill } from "./gqa_prefill.ts";
import {
  type GqaShape,
  gqaCacheBytes,
  gqaInputs,
  gqaOptions,
  gqaPairs,
  gqaReference,
} from "./gqa_reference.ts";

const ITEM_WORDS = 8;
/** Items in front that are another launch's. */
const OTHER_ITEMS = 1;

function itemsOf({ sequences }: GqaShape): Uint32Array {
  const items: number[] = new Array(OTHER_ITEMS * ITEM_WORDS).fill(0xffff);
  let row = 0;
  for (const { rows } of sequences) {
    for (let r = 0; r < rows; r += GQA_PREFILL_ROW_TILE) {
      items.push(row + r, Math.min(GQA_PREFILL_ROW_TILE, rows - r), 9, 9, 9, 9, 9, 9);
    }
    row += rows;
  }
  return Uint32Array.from(items);
}

export default defineCheck<GqaShape>({
  name: "attention/gqa_prefill",
  cases: [
    // A prefix and a fresh prompt; two splits, the second one short; a short item.
    {
      sequences: [
        { first: 139, rows: 10 },
        { first: 0, rows: 3 },
      ],
      heads: 3,
      kvHeads: 1,
      headDim: 20,
      pageSize: 3,
      splitLength: 128,
      dtype: "bf16",
      sinks: true,
    },
    // A window that hides splits from some rows of an item, and ends inside tiles.
    {
      sequences: [
        { first: 250, rows: 20 },
        { first: 370, rows: 9 },
      ],
      heads: 4,
      kvHeads: 2,
      headDim: 68,
      pageSize: 16,
      splitLength: 128,
      dtype: "f32",
      window: 121,
    },
    {
      sequences: [
        { first: 139, rows: 10 },
        { first: 0, rows: 3 },
      ],
      heads: 6,
      kvHeads: 2,
      headDim: 20,
      pageSize: 3,
      splitLength: 128,
      dtype: "fp8_e4m3",
    },
    {
      sequences: [{ first: 130, rows: 9 }],
      heads: 2,
      kvHeads: 1,
      headDim: 68,
      pageSize: 16,
      splitLength: 128,
      dtype: "fp8_e5m2",
    },
    {
      sequences: [{ first: 300, rows: 12 }],
      heads: 2,
      kvHeads: 1,
      headDim: 256,
      pageSize: 16,
      splitLength: 256,
      dtype: "bf16",
      window: 40,
      sinks: true,
    },
    {
      sequences: [{ first: 0, rows: 256 }],
      heads: 16,
      kvHeads: 8,
      headDim: 128,
      pageSize: 64,
      splitLength: 256,
      dtype: "bf16",
    },
  ],
  tunings: [{ subgroups: 1 }, {}, { lanes: 32 }, { lanes: 16 }],
  exactAcrossTunings: true,
  // The short campaign compares tunings in test/kernels/attention/attention_tunings.
  tunedCases: [],
  tolerance: 3e-5,
  bytes: gqaCacheBytes,
  flops: (shape) => 4 * gqaPairs(shape) * shape.heads * shape.headDim,
  // What is shared with decode is tried there.
  mutants: [
    {
      name: "the window is ignored",
      replace: "end - min(end, params.window)",
      with: "0u",
      case: 1,
    },
    { name: "every head has the first sink", replace: "sinks[head]", with: "sinks[0]" },
    { name: "every tile has the same heads", replace: "% params.head_tiles", with: "* 0u" },
    {
      name: "every group has the first one's keys",
      replace: "group.y / params.head_tiles",
      with: "0u * params.head_tiles",
      case: 1,
    },
    {
      name: "every row reads the first table",
      replace: "].w, kv_head, first",
      with: "].w * 0u, kv_head, first",
    },
    { name: "every item is the first", replace: "params.first_item + group.x", with: "group.x" },
    { name: "every row is its item's first", replace: "query / HEADS", with: "0u" },
    {
      name: "every row sees what the last one sees",
      replace: "min(i / HEADS, asked.row_count - 1u)",
      with: "asked.row_count - 1u",
    },
    { name: "a split forgets those before it", replace: "earlier * a", with: "vec4f()" },
    { name: "the sum forgets the splits before", replace: "before.y * a", with: "0.0" },
    {
      name: "a split is not rescaled",
      replace: "vec4f(b), earlier",
      with: "vec4f(1.0), earlier",
    },
    { name: "the output is not divided", replace: "merged / total", with: "merged" },
    {
      name: "the output's stride is ignored",
      replace: "(params.out_stride / 4u)",
      with: "(params.heads * HEAD_QUADS)",
    },
    { name: "the scales of keys are dropped", replace: "sums[i] *= of_keys;", with: "", case: 2 },
    {
      name: "the scales of values are dropped",
      replace: "values[k] *= of_keys[k];",
      with: "",
      case: 2,
    },
    {
      name: "the last split starts at key 0",
      replace: "attend_split(max(split,",
      with: "attend_split(max(0u,",
    },
  ],

  inputs: (shape, random) => ({ ...gqaInputs(shape, random), items: itemsOf(shape) }),

  reference: (shape, inputs) => ({ out: gqaReference(shape, inputs) }),

  bind(recorder, shape, tensors, tuning) {
    const launch = gqaPrefill(recorder, {
      ...gqaOptions(shape, tensors),
      items: tensors.items!,
      ...exchangeOptions(recorder.device, tuning),
    });
    const items = itemsOf(shape).length / ITEM_WORDS - OTHER_ITEMS;
    return () => launch(OTHER_ITEMS, items);
  },
});
