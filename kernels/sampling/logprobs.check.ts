import { defineCheck } from "../check.ts";
import { LOGPROB_WORDS, type LogprobItem, logprobs, writeLogprobItem } from "./logprobs.ts";
import { logSoftmax } from "./reference.ts";

interface Shape {
  readonly rows: number;
  readonly vocabulary: number;
  readonly padding: number;
  /** Of the largest, at most this many. */
  readonly top: number;
  /** What the logits are: rounded so that many tie, with NaN and infinities, or hardly finite. */
  readonly kind: "ties" | "special" | "plain" | "huge";
}

const LEAST = -3.4028234663852886e38;
const WANTED = 3;

/** Items in the reverse order of rows, the first of several rows without one. */
function itemsOf({ rows, vocabulary, top }: Shape): LogprobItem[] {
  let out = 0;
  return Array.from({ length: Math.max(rows - 1, 1) }, (_, i) => {
    const item = {
      row: rows - 1 - i,
      token: i % 2 === 0 ? undefined : (i * 31) % vocabulary,
      temperature: [1, 0.7, 2.5][i % 3]!,
      top: i % 3 === 1 ? 0 : Math.min(top - (i % 2), vocabulary),
      firstWanted: i,
      wantedCount: i % 4 === 3 ? 0 : WANTED - (i % 2),
      out,
    };
    out += 1 + item.top + item.wantedCount;
    return item;
  });
}

export default defineCheck<Shape>({
  name: "sampling/logprobs",
  cases: [
    { rows: 7, vocabulary: 301, padding: 3, top: 5, kind: "ties" },
    { rows: 2, vocabulary: 1, padding: 0, top: 1, kind: "plain" },
    { rows: 9, vocabulary: 90, padding: 3, top: 90, kind: "special" }, // the whole row, sorted
    { rows: 6, vocabulary: 40, padding: 0, top: 40, kind: "huge" }, // over the temperature 0.7 they overflow
    { rows: 5, vocabulary: 20001, padding: 3, top: 20, kind: "plain" },
    { rows: 9, vocabulary: 129280, padding: 0, top: 20, kind: "plain" }, // 671B model
  ],
  tunings: [{}, { workgroupSize: 256 }],
  tolerance: 2e-6,
  bytes: (shape) => 2 * itemsOf(shape).length * shape.vocabulary * 4,
  flops: (shape) => itemsOf(shape).length * shape.vocabulary * 4,
  mutants: [
    {
      name: "rows are vocabulary apart",
      replace: "item.row * params.stride",
      with: "item.row * params.vocabulary",
    },
    {
      name: "the item's number is the row",
      replace: "let row = item.row *",
      with: "let row = group.x *",
    },
    {
      name: "the sampled token is the item's",
      replace: "ids[token & ROW_BITS]",
      with: "ids[group.x]",
    },
    {
      name: "the temperature is ignored",
      replace: "(logit - largest) / temperature",
      with: "(logit - largest)",
    },
    {
      name: "the sum is left out",
      replace: "item.temperature) - log_sum",
      with: "item.temperature)",
    },
    { name: "the same token twice", replace: "own = best_after(invocation, row, best);", with: "" },
    {
      name: "ties go to the highest index",
      replace: "index < other_index",
      with: "index > other_index",
    },
    {
      name: "one fewer of the largest",
      replace: "i < items[group.x].top",
      with: "i + 1u < items[group.x].top",
    },
    { name: "the wanted are those of the first item", replace: "item.first_wanted + i", with: "i" },
    {
      name: "one wanted too few",
      replace: "i < item.wanted_count",
      with: "i + 1u < item.wanted_count",
    },
    { name: "wanted results stand where the largest do", replace: "1u + item.top", with: "1u" },
    {
      name: "the row ends early",
      replace: "t < params.vocabulary",
      with: "t + 1u < params.vocabulary",
    },
    {
      name: "-inf is left as it is",
      replace: "min(ordered_bits(logit), ordered_bits(value))",
      with: "ordered_bits(value)",
      case: 2,
    },
    {
      name: "what overflows is left as it is",
      replace: "min(ordered_bits(logit), ordered_bits(value))",
      with: "ordered_bits(logit)",
      case: 3,
    },
  ],

  inputs(shape, random) {
    const { rows, vocabulary, padding, kind } = shape;
    const stride = vocabulary + padding;
    const items = new DataView(new ArrayBuffer(rows * LOGPROB_WORDS * 4));
    itemsOf(shape).forEach((item, i) => {
      writeLogprobItem(items, i, item);
    });
    return {
      items: new Uint32Array(items.buffer),
      ids: Uint32Array.from({ length: rows }, () => random() * vocabulary),
      wanted: Uint32Array.from({ length: rows + WANTED }, () => random() * vocabulary),
      logits: Float32Array.from({ length: rows * stride }, (_, i) => {
        if (i % stride >= vocabulary) return 50; // not part of the row
        if (kind === "huge") return [3.4e38, 1e38, 5][Math.floor(random() * 3)]!;
        if (kind === "special" && Math.floor(i / stride) === 4) return -Infinity; // all forbidden
        if (kind === "special" && random() < 0.4) return random() < 0.5 ? Number.NaN : -Infinity;
        const value = random() * 20 - 10 + (i % stride === vocabulary - 1 ? 12 : 0);
        return kind === "ties" ? Math.round(value / 2) * 2 : value;
      }),
    };
  },

  reference(shape, { ids, wanted, logits }) {
    const { vocabulary, padding } = shape;
    const tokens: number[] = [];
    const values: number[] = [];
    for (const item of itemsOf(shape)) {
      const first = item.row * (vocabulary + padding);
      const row = logits!.subarray(first, first + vocabulary);
      const all = logSoftmax(row, item.temperature);
      // NaN comes last, after -inf.
      const rank = (t: number) => (Number.isNaN(row[t]!) ? Number.NaN : row[t]!);
      const order = Array.from(all.keys()).sort((a, b) => {
        const [x, y] = [rank(a), rank(b)];
        if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
        return x === y || Number.isNaN(x) ? a - b : y - x;
      });
      const given = Array.from(
        wanted!.subarray(item.firstWanted, item.firstWanted + item.wantedCount),
      );
      for (const token of [item.token ?? ids![item.row]!, ...order.slice(0, item.top), ...given]) {
        tokens.push(token);
        values.push(Math.max(all[token]!, LEAST));
      }
    }
    return { tokens: Uint32Array.from(tokens), values: Float64Array.from(values) };
  },

  bind(recorder, shape, { items, ids, wanted, logits, tokens, values }, tuning) {
    const { vocabulary, padding } = shape;
    const launch = logprobs(recorder, {
      items: items!,
      ids: ids!,
      wanted: wanted!,
      logits: logits!,
      tokens: tokens!,
      values: values!,
      vocabulary,
      stride: vocabulary + padding,
      ...tuning,
    });
    return () => launch(itemsOf(shape).length);
  },
});
