import { defineCheck } from "../../check.ts";
import { topDrafts } from "./top_drafts.ts";

interface Shape {
  readonly rows: number;
  readonly vocabulary: number;
  readonly padding: number;
  readonly topk: number;
  /** What the logits are: rounded so that many tie, or with NaN and infinities. */
  readonly kind: "ties" | "special" | "plain";
}

export default defineCheck<Shape>({
  name: "speculation/trees/top_drafts",
  cases: [
    { rows: 7, vocabulary: 301, padding: 3, topk: 5, kind: "ties" },
    { rows: 2, vocabulary: 1, padding: 0, topk: 1, kind: "plain" },
    { rows: 9, vocabulary: 64, padding: 3, topk: 64, kind: "special" }, // the whole row, sorted
    { rows: 5, vocabulary: 20001, padding: 3, topk: 64, kind: "plain" },
    { rows: 32, vocabulary: 129280, padding: 0, topk: 8, kind: "plain" }, // 671B model
  ],
  tunings: [{}, { workgroupSize: 256 }],
  tolerance: 2e-6,
  bytes: ({ rows, vocabulary }) => 2 * rows * vocabulary * 4,
  flops: ({ rows, vocabulary }) => rows * vocabulary * 4,
  mutants: [
    {
      name: "rows are vocabulary apart",
      replace: "group.x * params.stride",
      with: "group.x * params.vocabulary",
    },
    {
      name: "rows of the output are one apart",
      replace: "group.x * params.topk",
      with: "group.x",
    },
    {
      name: "weights are not divided by their sum",
      replace: "own_weight / total",
      with: "own_weight",
    },
    {
      name: "logits are not compared with the largest",
      replace: "select(logit - largest, 0.0, logit == largest)",
      with: "logit",
    },
    {
      name: "infinity less infinity",
      replace: "select(logit - largest, 0.0, logit == largest)",
      with: "logit - largest",
      case: 2,
    },
    {
      name: "NaN weighs something",
      replace: "if ordered_bits(logit) <= KEY_NEGATIVE_INFINITY { return 0.0; }",
      with: "if ordered_bits(logit) == 0u { return 1.0; }",
      case: 2,
    },
    {
      name: "nothing weighs everything",
      replace: "select(0.0, own_weight / total, own_weight > 0.0)",
      with: "select(1.0, own_weight / total, own_weight > 0.0)",
      case: 2,
    },
    { name: "the same token twice", replace: "own = best_after(invocation, row, best);", with: "" },
    {
      name: "ties go to the highest index",
      replace: "index < other_index",
      with: "index > other_index",
    },
    {
      name: "one fewer",
      replace: "i < params.topk",
      with: "i + 1u < params.topk",
    },
    {
      name: "the sum leaves the last token out",
      replace: "t < params.vocabulary; t += WORKGROUP_SIZE) {\n    sum",
      with: "t + 1u < params.vocabulary; t += WORKGROUP_SIZE) {\n    sum",
    },
    {
      name: "the last token is never likeliest",
      replace: "t < params.vocabulary; t += WORKGROUP_SIZE) {\n    let key",
      with: "t + 1u < params.vocabulary; t += WORKGROUP_SIZE) {\n    let key",
    },
  ],

  inputs({ rows, vocabulary, padding, kind }, random) {
    const stride = vocabulary + padding;
    return {
      logits: Float32Array.from({ length: rows * stride }, (_, i) => {
        if (i % stride >= vocabulary) return 50; // not part of the row
        const row = Math.floor(i / stride);
        if (kind === "special" && row === 4) return Number.NEGATIVE_INFINITY; // all forbidden
        if (kind === "special" && row === 5) return Number.NaN;
        if (kind === "special" && row === 6 && i % stride === 9) return Number.POSITIVE_INFINITY;
        if (kind === "special" && random() < 0.3) {
          return random() < 0.5 ? Number.NaN : Number.NEGATIVE_INFINITY;
        }
        const value = random() * 20 - 10 + (i % stride === vocabulary - 1 ? 12 : 0);
        if (kind !== "ties") return value;
        // Of one row so large that only differences have a power.
        return Math.round(value / 2) * 2 + (row === 3 ? 200 : 0);
      }),
    };
  },

  reference({ rows, vocabulary, padding, topk }, { logits }) {
    const tokens: number[] = [];
    const probabilities: number[] = [];
    for (let r = 0; r < rows; r++) {
      const first = r * (vocabulary + padding);
      const row = Array.from(logits!.subarray(first, first + vocabulary));
      const known = row.filter((logit) => !Number.isNaN(logit));
      const largest = known.reduce((most, logit) => Math.max(most, logit), -Infinity);
      const weights = row.map((logit) => {
        if (Number.isNaN(logit) || logit === -Infinity) return 0;
        return logit === largest ? 1 : Math.exp(logit - largest);
      });
      const total = weights.reduce((sum, weight) => sum + weight, 0);
      // NaN comes last, after -inf.
      const order = [...row.keys()].sort((a, b) => {
        const [x, y] = [row[a]!, row[b]!];
        if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
        return x === y || Number.isNaN(x) ? a - b : y - x;
      });
      for (const token of order.slice(0, topk)) {
        tokens.push(token);
        probabilities.push(weights[token] === 0 ? 0 : weights[token]! / total);
      }
    }
    return {
      tokens: Uint32Array.from(tokens),
      probabilities: Float64Array.from(probabilities),
    };
  },

  bind(recorder, { rows, vocabulary, padding, topk }, tensors, tuning) {
    const launch = topDrafts(recorder, {
      logits: tensors.logits!,
      tokens: tensors.tokens!,
      probabilities: tensors.probabilities!,
      topk,
      vocabulary,
      stride: vocabulary + padding,
      ...tuning,
    });
    return () => launch(rows);
  },
});
