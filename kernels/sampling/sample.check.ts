import { defineCheck } from "../check.ts";
import { drawToken } from "./reference.ts";
import { DRAW_WORDS, type Draw, sample, writeDraw } from "./sample.ts";

interface Shape {
  readonly rows: number;
  readonly vocabulary: number;
  readonly padding: number;
  /** Logits are multiples of this, so that many tie; 0: any number. */
  readonly step: number;
  readonly kind: "mixed" | "special" | "ties" | "topP";
}

const KINDS: Readonly<Record<Shape["kind"], readonly Omit<Draw, "seed" | "position">[]>> = {
  mixed: [
    { temperature: 0, topP: 1, topK: Infinity },
    { temperature: 1, topP: 1, topK: Infinity },
    { temperature: 0.7, topP: 0.6, topK: Infinity },
    { temperature: 1.5, topP: 1, topK: 5 },
    { temperature: 2, topP: 0.5, topK: 40 },
    { temperature: 2, topP: 0.98, topK: 7 },
    { temperature: 1, topP: 1, topK: 1 },
    { temperature: 1, topP: 0, topK: Infinity },
    { temperature: 2.5, topP: 1, topK: Infinity, minP: 0.3 },
    { temperature: 3, topP: 0.9, topK: 30, minP: 0.2 },
    { temperature: 3, topP: 0.4, topK: 40, minP: 0.001 },
    { temperature: 1, topP: 1, topK: Infinity, minP: 1 },
  ],
  special: [
    { temperature: 1, topP: 1, topK: Infinity },
    { temperature: 1, topP: 1, topK: 4 },
    { temperature: 1e-30, topP: 0.9, topK: 4 },
    { temperature: 1, topP: 1, topK: Infinity, minP: 0.2 },
    { temperature: 0, topP: 1, topK: Infinity },
  ],
  ties: [{ temperature: 1, topP: 1, topK: 30 }],
  topP: [{ temperature: 1, topP: 0.9, topK: Infinity }],
};

/** Row `r`'s draw; the same position in another row never has the same seed. */
function drawOf({ kind }: Shape, r: number): Draw {
  const rules = KINDS[kind];
  return { ...rules[r % rules.length]!, seed: 0x9e370000 + r * 7919, position: r + 3 };
}

export default defineCheck<Shape>({
  name: "sampling/sample",
  cases: [
    { rows: 144, vocabulary: 150, padding: 2, step: 0.25, kind: "mixed" },
    { rows: 2, vocabulary: 1, padding: 0, step: 0, kind: "mixed" },
    { rows: 24, vocabulary: 9, padding: 3, step: 0, kind: "special" }, // NaN and -inf
    { rows: 32, vocabulary: 3001, padding: 3, step: 0, kind: "mixed" },
    { rows: 16, vocabulary: 2000, padding: 0, step: 100, kind: "mixed" }, // all the same
    // The best are in the last run of the row; the others that are kept all tie, over several runs.
    { rows: 16, vocabulary: 2000, padding: 0, step: 0, kind: "ties" },
    { rows: 4, vocabulary: 129280, padding: 0, step: 0, kind: "topP" }, // 671B model
  ],
  tunings: [{}, { workgroupSize: 256 }],
  exactAcrossTunings: true,
  tolerance: 0,
  bytes: ({ rows, vocabulary }) => 7 * rows * vocabulary * 4,
  flops: () => 0,
  mutants: [
    {
      name: "temperature is ignored",
      replace: "(logit - largest) / temperature",
      with: "(logit - largest)",
    },
    { name: "top-k is ignored", replace: "count >= draw.top_k", with: "false" },
    { name: "top-p is ignored", replace: "draw.top_p < 1.0 { limit", with: "false { limit" },
    {
      name: "all ties are kept",
      replace: "var kept = min(ties, draw.top_k - count_before)",
      with: "return ties; var kept = 0u",
      case: 4,
    },
    {
      name: "top-p keeps every tie",
      replace: "less64(room, mul_wide(middle - 1u, weight))",
      with: "false",
      case: 4,
    },
    { name: "ties are kept in every run", replace: "ties_left -= own_ties;", with: "", case: 5 },
    { name: "min-p is ignored", replace: "&& floor_key > key", with: "&& false" },
    {
      name: "min-p forgets the temperature",
      replace: "fma(draw.temperature, draw.log_min_p, largest)",
      with: "draw.log_min_p + largest",
    },
    { name: "min-p always cuts", replace: "&& floor_key > key", with: "" },
    { name: "min-p cuts its last one", replace: "floor_key - 1u,", with: "floor_key,", case: 4 },
    { name: "the seed is ignored", replace: "philox(draw.seed,", with: "philox(0u," },
    { name: "the position is ignored", replace: ", draw.position,", with: ", 0u," },
    {
      name: "rows are vocabulary apart",
      replace: "group.x * params.stride",
      with: "group.x * params.vocabulary",
    },
    { name: "one pass too few", replace: "pass_index < PASSES", with: "pass_index < PASSES - 1u" },
    { name: "carries are lost", replace: "low + weight < low", with: "false" },
    { name: "the draws are those of row 0", replace: "draws[group.x]", with: "draws[0]" },
    { name: "the counts are not cleared", replace: "atomicStore(&digit_counts[d], 0u);", with: "" },
  ],

  inputs(shape, random) {
    const { rows, vocabulary, padding, step, kind } = shape;
    const stride = vocabulary + padding;
    const logits = Float32Array.from({ length: rows * stride }, (_, i) => {
      if (i % stride >= vocabulary) return 50; // not part of the row
      if (kind === "ties") return i % stride < vocabulary - 5 ? 0 : 1;
      if (kind === "special" && random() < 0.4) return random() < 0.5 ? Number.NaN : -Infinity;
      // Steep enough that some tokens are likely, whatever the size of the vocabulary.
      const value = 4 * Math.log(random() + 1e-9) * -1 - 5;
      return step > 0 ? Math.round(value / step) * step : value;
    });
    const draws = new DataView(new ArrayBuffer(rows * DRAW_WORDS * 4));
    for (let r = 0; r < rows; r++) writeDraw(draws, r, drawOf(shape, r));
    return { logits, draws: new Uint32Array(draws.buffer) };
  },

  reference(shape, { logits }) {
    const { rows, vocabulary, padding } = shape;
    const ids = Uint32Array.from({ length: rows }, (_, r) => {
      const first = r * (vocabulary + padding);
      const row = logits!.subarray(first, first + vocabulary);
      return drawToken(row, drawOf(shape, r)).id;
    });
    return { ids };
  },

  bind(recorder, { rows, vocabulary, padding }, { logits, draws, ids }, tuning) {
    const launch = sample(recorder, {
      logits: logits!,
      draws: draws!,
      ids: ids!,
      vocabulary,
      stride: vocabulary + padding,
      ...tuning,
    });
    return () => launch(rows);
  },
});
