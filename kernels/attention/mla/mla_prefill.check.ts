import { defineCheck } from "../../check.ts";
import { exchangeOptions } from "../check_tuning.ts";
import { mlaPrefill, PREFILL_ROW_TILE } from "./mla_prefill.ts";

interface Shape {
  /** Prompt rows `[first, first + rows)` of each sequence. */
  readonly sequences: readonly { readonly first: number; readonly rows: number }[];
  readonly heads: number;
  readonly nope: number;
  readonly rope: number;
  readonly value: number;
  readonly splitLength: number;
  /** Keys of a sequence in one pass: a multiple of the split length. */
  readonly passKeys: number;
}

const SCALE = 0.4;
const PAD = 4;
/** Rows of another kind in front. */
const OTHER_ROWS = 1;
const ITEM_WORDS = 8;

const queryStride = ({ heads, nope, rope }: Shape) => heads * (nope + rope) + PAD;
const outStride = ({ heads, value }: Shape) => heads * value + PAD;
const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
const rowsOf = (shape: Shape) => OTHER_ROWS + sum(shape.sequences.map(({ rows }) => rows));
const longest = ({ sequences }: Shape) =>
  Math.max(...sequences.map(({ first, rows }) => first + rows));

/** Items of every pass, one after another, and the workspace row of each sequence's first key. */
function layOut(shape: Shape) {
  const starts: number[] = [];
  let workspace = 1; // a row that the kernel does not read, in front of each sequence
  for (const { first, rows } of shape.sequences) {
    starts.push(workspace);
    workspace += first + rows + 1;
  }
  const items: number[] = [];
  const passes: { firstItem: number; items: number }[] = [];
  for (let key = 0; key < longest(shape); key += shape.passKeys) {
    const firstItem = items.length / ITEM_WORDS;
    let row = OTHER_ROWS;
    shape.sequences.forEach(({ first, rows }, s) => {
      const total = first + rows;
      const count = Math.min(shape.passKeys, total - key);
      for (let r = 0; r < rows && count > 0; r += PREFILL_ROW_TILE) {
        const tile = Math.min(PREFILL_ROW_TILE, rows - r);
        const last = key + count === total;
        items.push(row + r, tile, starts[s]! + key, key, count, key === 0 ? 1 : 0, last ? 1 : 0, 0);
      }
      row += rows;
    });
    passes.push({ firstItem, items: items.length / ITEM_WORDS - firstItem });
  }
  return { starts, workspace, items: Uint32Array.from(items), passes };
}

const pairs = ({ sequences }: Shape) =>
  sum(sequences.map(({ first, rows }) => rows * first + (rows * (rows + 1)) / 2));

export default defineCheck<Shape>({
  name: "attention/mla_prefill",
  cases: [
    // A prefix and a fresh prompt; two passes, the first of two splits; a short row tile.
    {
      sequences: [
        { first: 299, rows: 10 },
        { first: 0, rows: 3 },
      ],
      heads: 2,
      nope: 4,
      rope: 8,
      value: 12,
      splitLength: 128,
      passKeys: 256,
    },
    {
      sequences: [
        { first: 120, rows: 9 },
        { first: 190, rows: 4 },
      ],
      heads: 3,
      nope: 20,
      rope: 8,
      value: 36,
      splitLength: 128,
      passKeys: 128,
    },
    {
      sequences: [{ first: 30, rows: 40 }],
      heads: 16,
      nope: 128,
      rope: 64,
      value: 128,
      splitLength: 2048,
      passKeys: 2048,
    },
    {
      sequences: [{ first: 0, rows: 256 }],
      heads: 4,
      nope: 32,
      rope: 16,
      value: 32,
      splitLength: 2048,
      passKeys: 2048,
    },
  ],
  tunings: [{ subgroups: 1 }, {}, { lanes: 16 }, { lanes: 32 }],
  exactAcrossTunings: true,
  // The short campaign compares tunings in test/kernels/attention/attention_tunings.
  tunedCases: [],
  tolerance: 3e-5,
  bytes: ({ sequences, heads, nope, rope, value }) =>
    sum(sequences.map(({ first, rows }) => first + rows)) * (heads * (nope + value) + rope) * 4,
  flops: (shape) => 2 * pairs(shape) * shape.heads * (shape.nope + shape.rope + shape.value),
  // What is shared with decode is tried there.
  mutants: [
    {
      name: "what the first invocation read is taken for everything",
      replace: "subgroupShuffle(mine, reader)",
      with: "subgroupShuffle(mine, 0u)",
      ofSubgroups: true,
    },
    { name: "the scale is dropped", replace: "* params.scale", with: "" },
    { name: "every item is the first", replace: "params.first_item + group.x", with: "group.x" },
    { name: "every row is its item's first", replace: "query / HEADS", with: "0u" },
    {
      name: "a key too many is seen",
      replace: "let length = rows[item.x].y + 1u",
      with: "let length = rows[item.x].y + 2u",
    },
    {
      name: "the newest key is not seen",
      replace: "let length = rows[item.x].y + 1u",
      with: "let length = max(rows[item.x].y, 1u)",
    },
    {
      name: "every row sees what the last one sees",
      replace: "min(i / HEADS, asked.row_count - 1u)",
      with: "asked.row_count - 1u",
    },
    {
      name: "the pass's position is ignored",
      replace: "Keys(item.z - item.w,",
      with: "Keys(item.z,",
    },
    {
      name: "keys beyond the pass are read",
      replace: "item.w + flags.x)",
      with: "item.w + flags.x + params.split_length)",
    },
    { name: "the workspace starts elsewhere", replace: "Keys(item.z -", with: "Keys(1u -" },
    {
      name: "keys are taken for values",
      replace: "kv[at + NOPE_QUADS + quad]",
      with: "kv[at + quad]",
    },
    {
      name: "every head has the first one's keys",
      replace: "+ vec4u(keys.head)",
      with: "",
    },
    {
      name: "every key has the first one's rope part",
      replace: "row * ROPE_QUADS;",
      with: "vec4u(row.x) * ROPE_QUADS;",
    },
    { name: "the state is not read", replace: "if flags.y == 0u {", with: "if false {" },
    { name: "the state is not written", replace: "flags.z == 1u || lane != 0u", with: "true" },
    { name: "the sum forgets the splits before", replace: "before.y * a", with: "0.0" },
    { name: "a split forgets those before it", replace: "earlier * a", with: "vec4f()" },
    { name: "a split is not rescaled", replace: "vec4f(b), earlier", with: "vec4f(1.0), earlier" },
    {
      name: "rows without a key in their last pass are left",
      replace: "split < max(end, item.w + 1u)",
      with: "split < end",
      case: 1,
    },
    {
      name: "the rope part is not turned",
      replace: "position * ROPE_QUADS",
      with: "0u * ROPE_QUADS",
    },
    {
      name: "the query's stride is ignored",
      replace: "(params.q_stride / 4u)",
      with: "(params.heads * KEY_QUADS)",
    },
    {
      name: "the output's stride is ignored",
      replace: "(params.out_stride / 4u)",
      with: "(params.heads * VALUE_QUADS)",
    },
    { name: "the rope part is not scored", replace: "params.key_quads", with: "params.nope_quads" },
    { name: "the output is not divided", replace: "merged / l", with: "merged" },
  ],

  inputs(shape, random) {
    const { sequences, heads, nope, rope, value } = shape;
    const rows = rowsOf(shape);
    const { starts, workspace, items } = layOut(shape);
    const wide = (length: number) => Float32Array.from({ length }, () => random() * 4 - 2);
    // What must not be read is NaN.
    const q = new Float32Array(rows * queryStride(shape)).fill(Number.NaN);
    const kv = new Float32Array(workspace * heads * (nope + value)).fill(Number.NaN);
    const ropes = new Float32Array(workspace * rope).fill(Number.NaN);
    const table = new Uint32Array(rows * 4);
    let row = OTHER_ROWS;
    sequences.forEach(({ first, rows: count }, s) => {
      kv.set(wide((first + count) * heads * (nope + value)), starts[s]! * heads * (nope + value));
      ropes.set(wide((first + count) * rope), starts[s]! * rope);
      for (let r = 0; r < count; r++, row++) {
        q.set(wide(heads * (nope + rope)), row * queryStride(shape));
        table.set([3, first + r, 4, 5], row * 4);
      }
    });
    return {
      q,
      kv,
      ropes,
      items,
      rows: table,
      rope_table: Float32Array.from({ length: longest(shape) * rope }, () => random() * 2 - 1),
      state: new Float32Array(rows * heads * 2).fill(Number.NaN),
    };
  },

  reference(shape, { q, kv, ropes, rope_table }) {
    const { sequences, heads, nope, rope, value } = shape;
    const { starts } = layOut(shape);
    const out = new Float64Array(rowsOf(shape) * outStride(shape)).fill(Number.NaN);
    let row = OTHER_ROWS;
    sequences.forEach(({ first, rows }, s) => {
      for (let position = first; position < first + rows; position++, row++) {
        for (let h = 0; h < heads; h++) {
          const at = row * queryStride(shape) + h * (nope + rope);
          const query = Float64Array.from(q!.subarray(at, at + nope + rope));
          for (let i = 0; i < rope; i += 2) {
            const [a, b] = [q![at + nope + i]!, q![at + nope + i + 1]!];
            const [cos, sin] = [
              rope_table![position * rope + i]!,
              rope_table![position * rope + i + 1]!,
            ];
            query[nope + i] = a * cos - b * sin;
            query[nope + i + 1] = a * sin + b * cos;
          }
          const keyAt = (key: number) => ((starts[s]! + key) * heads + h) * (nope + value);
          const scores: number[] = [];
          for (let key = 0; key <= position; key++) {
            let score = 0;
            for (let c = 0; c < nope; c++) score += query[c]! * kv![keyAt(key) + c]!;
            for (let c = 0; c < rope; c++) {
              score += query[nope + c]! * ropes![(starts[s]! + key) * rope + c]!;
            }
            scores.push(score * SCALE);
          }
          const top = Math.max(...scores);
          const total = sum(scores.map((score) => Math.exp(score - top)));
          const o = row * outStride(shape) + h * value;
          out.fill(0, o, o + value);
          scores.forEach((score, key) => {
            const weight = Math.exp(score - top) / total;
            for (let c = 0; c < value; c++) out[o + c]! += weight * kv![keyAt(key) + nope + c]!;
          });
        }
      }
    });
    return { out };
  },

  bind(recorder, shape, tensors, tuning) {
    const { heads, nope, rope, value, splitLength } = shape;
    const launches = layOut(shape).passes.map(({ firstItem, items }) => {
      const launch = mlaPrefill(recorder, {
        query: tensors.q!,
        queryStride: queryStride(shape),
        keyValues: tensors.kv!,
        ropes: tensors.ropes!,
        items: tensors.items!,
        rows: tensors.rows!,
        ropeTable: tensors.rope_table!,
        state: tensors.state!,
        out: tensors.out!,
        outStride: outStride(shape),
        heads,
        nope,
        rope,
        value,
        splitLength,
        scale: SCALE,
        ...exchangeOptions(recorder.device, tuning),
      });
      return () => launch(firstItem, items);
    });
    return () => {
      for (const launch of launches) launch();
    };
  },
});
