import { defineCheck } from "../check.ts";
import { argmax } from "./argmax.ts";

interface Shape {
  readonly rows: number;
  readonly vocabulary: number;
  readonly padding: number;
  /** What the logits are: rounded so that the largest one ties, or with NaN and infinities. */
  readonly kind: "ties" | "special" | "plain";
}

const SPECIAL = [Number.NaN, Number.NEGATIVE_INFINITY, -3, Number.POSITIVE_INFINITY];

export default defineCheck<Shape>({
  name: "sampling/argmax",
  cases: [
    { rows: 12, vocabulary: 301, padding: 3, kind: "ties" },
    { rows: 1, vocabulary: 1, padding: 0, kind: "plain" },
    { rows: 9, vocabulary: 5, padding: 3, kind: "special" },
    { rows: 2, vocabulary: 129280, padding: 0, kind: "plain" }, // 671B model
  ],
  tunings: [{}, { workgroupSize: 256 }],
  exactAcrossTunings: true,
  tolerance: 0,
  bytes: ({ rows, vocabulary }) => rows * vocabulary * 4,
  flops: () => 0,
  mutants: [
    {
      name: "ties go to the highest index",
      replace: "index < other_index",
      with: "index > other_index",
    },
    {
      name: "rows are vocabulary apart",
      replace: "group.x * params.stride",
      with: "group.x * params.vocabulary",
    },
    {
      name: "one invocation is left out",
      replace: "var i = 1u; i < BEST_BLOCK",
      with: "var i = 2u; i < BEST_BLOCK",
    },
    { name: "the first 64 only", replace: "i < params.vocabulary", with: "i < 64u" },
    { name: "NaN wins", replace: "return 0u;", with: "return 0xffffffffu;", case: 2 },
    {
      name: "negatives are ordered by magnitude",
      replace: "0x80000000u - magnitude",
      with: "magnitude",
    },
  ],

  inputs: ({ rows, vocabulary, padding, kind }, random) => ({
    logits: Float32Array.from({ length: rows * (vocabulary + padding) }, (_, i) => {
      if (i % (vocabulary + padding) >= vocabulary) return 1e9; // not part of the row
      if (kind === "special") return SPECIAL[Math.floor(random() * SPECIAL.length)]!;
      // Rows of negative numbers only, too.
      const value = random() * 20 - (Math.floor(i / (vocabulary + padding)) % 2) * 30;
      return kind === "ties" ? Math.round(value) : value;
    }),
  }),

  reference({ rows, vocabulary, padding }, { logits }) {
    const ids = new Uint32Array(rows);
    for (let r = 0; r < rows; r++) {
      const first = r * (vocabulary + padding);
      let best = -1;
      for (let i = 0; i < vocabulary; i++) {
        const value = logits![first + i]!;
        if (Number.isNaN(value)) continue;
        if (best < 0 || value > logits![first + best]!) best = i;
      }
      ids[r] = Math.max(best, 0);
    }
    return { ids };
  },

  bind(recorder, { rows, vocabulary, padding }, { logits, ids }, tuning) {
    const launch = argmax(recorder, {
      logits: logits!,
      ids: ids!,
      vocabulary,
      stride: vocabulary + padding,
      ...tuning,
    });
    return () => launch(rows);
  },
});
