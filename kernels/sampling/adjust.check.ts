import { defineCheck } from "../check.ts";
import {
  ADJUST_WORDS,
  type Adjustment,
  adjust,
  IN_PROMPT,
  maskWords,
  writeAdjustment,
} from "./adjust.ts";
import { penalized } from "./reference.ts";

interface Shape {
  readonly rows: number;
  readonly vocabulary: number;
  readonly padding: number;
}

/** Biases of every item that has some. */
const BIASES = 5;
/** Drafts in front of a row, at most. */
const DRAFTS = 3;
/** Entries of a row: its drafts, then its biases. */
const ENTRIES = DRAFTS + BIASES;
/** Times that a token may have been generated, in these tests. */
const MOST = 3;

/**
 * Rows with all kinds of work, and some without an item, in another order than the items. Slots and
 * masks are other numbers than the rows.
 */
function adjustmentsOf({ rows }: Shape): Adjustment[] {
  const all: Adjustment[] = [];
  for (let r = rows - 1; r >= 0; r--) {
    if (r % 5 === 4) continue;
    const strengths = {
      repetition: r % 2 === 0 ? 1.3 : 0.7,
      frequency: 0.4 - r / 8,
      presence: 0.3,
    };
    all.push({
      row: r,
      penalties: r % 5 === 1 ? undefined : { ...strengths, slot: (r + 1) % rows },
      mask: r % 5 === 2 ? undefined : (r + 2) % rows,
      firstBias: r * ENTRIES + DRAFTS,
      biasCount: r % 5 === 3 ? 0 : BIASES,
      draftCount: r % (DRAFTS + 1),
    });
  }
  return all;
}

/** Bias `i` of row `r`: distinct tokens, from both ends of the vocabulary; some forbid. */
function biasOf({ vocabulary }: Shape, r: number, i: number): readonly [number, number] {
  const token = i % 2 === 0 ? i + r : vocabulary - 1 - i - r;
  return [token, i === 2 ? Number.NEGATIVE_INFINITY : 1.5 * i - 2];
}

/** Entry `i` of row `r` in front of its biases: tokens from all over, one of them twice. */
function draftOf({ vocabulary }: Shape, r: number, i: number): number {
  return (Math.max(i, 1) * 131 + 17 * r) % vocabulary;
}

export default defineCheck<Shape>({
  name: "sampling/adjust",
  cases: [
    { rows: 6, vocabulary: 2083, padding: 1 }, // a second chunk, of 35 tokens
    { rows: 5, vocabulary: 33, padding: 3 },
    { rows: 4, vocabulary: 4096, padding: 0 },
    { rows: 32, vocabulary: 129280, padding: 0 }, // 671B model
  ],
  tunings: [{}, { workgroupSize: 256 }],
  exactAcrossTunings: true,
  // Divisions may be a few units in the last place off.
  tolerance: 1e-6,
  bytes: (shape) => adjustmentsOf(shape).length * shape.vocabulary * 12,
  flops: (shape) => adjustmentsOf(shape).length * shape.vocabulary * 4,
  mutants: [
    {
      name: "rows are vocabulary apart",
      replace: "item.row * params.stride",
      with: "item.row * params.vocabulary",
    },
    { name: "the item's number is the row", replace: "item.row *", with: "group.y *" },
    { name: "the row is the slot", replace: "item.slot * params", with: "item.row * params" },
    { name: "the row is the mask", replace: "item.mask * params", with: "item.row * params" },
    {
      name: "prompt tokens are not repeated",
      replace: "if seen != 0u",
      with: "if generated != 0u",
    },
    { name: "negative logits are divided too", replace: "value < 0.0)", with: "false)" },
    { name: "prompt tokens count as generated", replace: "seen & ~IN_PROMPT", with: "seen" },
    {
      name: "the frequency is a presence",
      replace: "f32(generated), value",
      with: "f32(min(generated, 1u)), value",
    },
    { name: "the presence is for every token", replace: "if generated > 0u", with: "if true" },
    { name: "the mask is upside down", replace: "& 1u) == 0u", with: "& 1u) == 1u" },
    {
      name: "the mask is one bit off",
      replace: "token % MASK_BITS",
      with: "(token + 1u) % MASK_BITS",
    },
    {
      name: "masks are a word too short",
      replace: "item.mask * params.mask_words",
      with: "item.mask * (params.mask_words - 1u)",
    },
    {
      name: "a bias revives a masked token",
      replace: "if forbidden { return params.forbidden; }",
      with: "if forbidden { return bitcast<f32>(bias); }",
    },
    { name: "biases are those of the first item", replace: "item.first_bias + i", with: "i" },
    { name: "a bias too few", replace: "i < item.bias_count", with: "i + 1u < item.bias_count" },
    { name: "drafts are not counted", replace: "u32(biases[d].x == token)", with: "0u" },
    {
      name: "one draft is not counted",
      replace: "var d = item.first_bias - item.draft_count",
      with: "var d = item.first_bias - item.draft_count + 1u",
    },
    { name: "the last chunk is left out", replace: "bias.x < end", with: "bias.x < 2048u" },
    { name: "the forbidden value is 0", replace: "value = params.forbidden", with: "value = 0.0" },
  ],

  inputs(shape, random) {
    const { rows, vocabulary, padding } = shape;
    const stride = vocabulary + padding;
    const items = new DataView(new ArrayBuffer(rows * ADJUST_WORDS * 4));
    adjustmentsOf(shape).forEach((one, i) => {
      writeAdjustment(items, i, one);
    });
    const biases = new DataView(new ArrayBuffer(rows * ENTRIES * 8));
    for (let i = 0; i < rows * ENTRIES; i++) {
      const [row, at] = [Math.floor(i / ENTRIES), i % ENTRIES];
      if (at < DRAFTS) {
        biases.setUint32(i * 8, draftOf(shape, row, at), true);
        continue;
      }
      const [token, value] = biasOf(shape, row, at - DRAFTS);
      biases.setUint32(i * 8, token, true);
      biases.setFloat32(i * 8 + 4, value, true);
    }
    return {
      items: new Uint32Array(items.buffer),
      counts: Uint32Array.from({ length: rows * vocabulary }, () => {
        const count = random() < 0.5 ? 0 : Math.floor(random() * (MOST + 1));
        return count + (random() < 0.3 ? IN_PROMPT : 0);
      }),
      masks: Uint32Array.from({ length: rows * maskWords(vocabulary) }, () => random() * 2 ** 32),
      biases: new Uint32Array(biases.buffer),
      logits: Float32Array.from({ length: rows * stride }, () => random() * 20 - 10),
    };
  },

  reference(shape, { counts, masks, logits }) {
    const { vocabulary, padding } = shape;
    const words = maskWords(vocabulary);
    const out = Float32Array.from(logits!);
    for (const { row, penalties, mask, biasCount, draftCount = 0 } of adjustmentsOf(shape)) {
      const first = row * (vocabulary + padding);
      let values: Float32Array = out.slice(first, first + vocabulary);
      if (penalties !== undefined) {
        const seen = counts!.subarray(
          penalties.slot * vocabulary,
          (penalties.slot + 1) * vocabulary,
        );
        const prompt: number[] = [];
        const generated: number[] = [];
        seen.forEach((count, token) => {
          if (count >= IN_PROMPT) prompt.push(token);
          for (let i = 0; i < count % IN_PROMPT; i++) generated.push(token);
        });
        for (let i = DRAFTS - draftCount; i < DRAFTS; i++) generated.push(draftOf(shape, row, i));
        values = penalized(values, penalties, { prompt, generated });
      }
      for (let t = 0; t < vocabulary && mask !== undefined; t++) {
        const word = masks![mask * words + Math.floor(t / 32)]!;
        if (((word >>> (t % 32)) & 1) === 0) values[t] = -Infinity;
      }
      for (let i = 0; i < biasCount; i++) {
        const [token, value] = biasOf(shape, row, i);
        values[token]! += value;
      }
      out.set(values, first);
    }
    return { logits: out };
  },

  bind(recorder, shape, { items, counts, masks, biases, logits }, tuning) {
    const { vocabulary, padding } = shape;
    const launch = adjust(recorder, {
      items: items!,
      counts: counts!,
      masks: masks!,
      biases: biases!,
      logits: logits!,
      vocabulary,
      stride: vocabulary + padding,
      ...tuning,
    });
    return () => launch(adjustmentsOf(shape).length);
  },
});
