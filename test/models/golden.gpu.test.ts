import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import { SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import { best, logSoftmax, ModelSession } from "../support/engines/model_session.ts";

interface TopTokens {
  readonly ids: readonly (readonly number[])[];
  readonly logprobs: readonly (readonly number[])[];
}

interface GoldenCase {
  readonly name: string;
  readonly input_ids: readonly number[];
  readonly input_logprobs: readonly (number | null)[];
  /** Not in every file. */
  readonly prompt_top20?: TopTokens;
  readonly greedy: {
    readonly ids: readonly number[];
    readonly margin: readonly number[];
    readonly top20: TopTokens;
  };
}

/** Everything a model computed for the cases of one golden file. */
interface Answers {
  /** |difference| of every prompt log-probability. */
  readonly prompt: number[];
  /** |difference| of every token listed as likely, prompt and completion. */
  readonly top: number[];
  /** Whether the best token of each prompt position agrees. */
  readonly best: boolean[];
  /** Cases whose greedy tokens differ where the margin is not small, with the step. */
  readonly wrongTokens: string[];
}

/** Below this margin between the two best logits a greedy token may differ. */
const SMALL_MARGIN = 0.05;

const MODES = {
  w: { quantizeActivations: false },
  "w.f32kv": { quantizeActivations: false, cacheDtype: "f32" },
  wa: { quantizeActivations: true },
} as const satisfies Record<string, Partial<EngineOptions>>;

async function answer(model: string, mode: keyof typeof MODES): Promise<Answers> {
  const file = join(SHARED_MODELS!, "../golden", `${model}.${mode}.json`);
  const golden = JSON.parse(readFileSync(file, "utf8")) as { cases: GoldenCase[] };
  // A rounding that falls the other way changes all that follows in its case: a median needs several.
  const few = mode === "wa" ? 8 : 2;
  const cases = smallestCaseOnly ? golden.cases.slice(0, few) : golden.cases;
  const session = await ModelSession.open(model, { ...MODES[mode], pageSize: 16 });
  const answers: Answers = { prompt: [], top: [], best: [], wrongTokens: [] };
  const compareTop = (logprobs: Float64Array, top: TopTokens, at: number) => {
    top.ids[at]!.forEach((id, i) => {
      answers.top.push(Math.abs(logprobs[id]! - top.logprobs[at]![i]!));
    });
  };

  const sequences = cases.map(({ input_ids }) => session.sequence(input_ids, 1));
  const last: Float32Array[] = [];
  for (const [c, { input_ids, input_logprobs, prompt_top20 }] of cases.entries()) {
    const logits = await session.prefill(sequences[c]!);
    last.push(logits.at(-1)!);
    logits.forEach((row, i) => {
      const logprobs = logSoftmax(row);
      if (prompt_top20 !== undefined) {
        compareTop(logprobs, prompt_top20, i);
        answers.best.push(best(row) === prompt_top20.ids[i]![0]);
      }
      if (i + 1 === input_ids.length) return;
      answers.prompt.push(Math.abs(logprobs[input_ids[i + 1]!]! - input_logprobs[i + 1]!));
    });
  }

  // The golden tokens are fed, so that one near-tie does not end a case's comparison of log-probabilities.
  const diverged = new Set<number>();
  for (let step = 0; step < cases[0]!.greedy.ids.length; step++) {
    for (const [c, { name, greedy }] of cases.entries()) {
      const got = best(last[c]!);
      if (greedy.margin[step]! <= SMALL_MARGIN) diverged.add(c);
      if (!diverged.has(c) && got !== greedy.ids[step]) {
        answers.wrongTokens.push(`${name}[${step}]: got ${got}, want ${greedy.ids[step]}`);
      }
      if (!diverged.has(c)) compareTop(logSoftmax(last[c]!), greedy.top20, step);
      sequences[c]!.tokens.push(greedy.ids[step]!);
    }
    const logits = await session.decode(sequences);
    logits.forEach((row, c) => {
      last[c] = row;
    });
  }
  session.close();
  return answers;
}

const share = (values: readonly boolean[]) => values.filter(Boolean).length / values.length;
const within = (errors: readonly number[], bound: number) => share(errors.map((e) => e <= bound));
const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

const TINY = ["tiny-deepseek-v3-bf16", "tiny-deepseek-v3-fp8"];
const MINI = [
  "mini-deepseek-v3-fp8",
  "mini-deepseek-v2-lite",
  "mini-llama",
  "mini-qwen3",
  "mini-qwen3-moe",
];
/** Those without a golden file for an f32 cache. */
const PACKED = [
  "mini-llama-int8",
  "mini-llama-awq",
  "tiny-deepseek-v3-int8",
  "tiny-deepseek-v3-awq",
];
const ROUNDED = [
  "mini-deepseek-v3-fp8",
  "mini-llama-int8",
  "tiny-deepseek-v3-fp8",
  "tiny-deepseek-v3-int8",
];
/** The slowest driver computes all the minis and one tiny model. */
const wanted = (model: string) =>
  !smallestCaseOnly || model.startsWith("mini") || model === TINY[1];

describe.skipIf(SHARED_MODELS === undefined)("golden (needs ../shared/data)", () => {
  test.each([...TINY, ...MINI].filter(wanted))(
    "%s with an f32 cache gives the golden log-probabilities",
    async (model) => {
      const { prompt, top, wrongTokens } = await answer(model, "w.f32kv");
      expect(Math.max(...prompt, ...top)).toBeLessThanOrEqual(3e-4);
      expect(wrongTokens).toEqual([]);
    },
  );

  test.each([...TINY, ...MINI, ...PACKED].filter(wanted))(
    "%s gives the golden log-probabilities and tokens",
    async (model) => {
      const { prompt, wrongTokens } = await answer(model, "w");
      if (model.startsWith("tiny")) {
        expect(within(prompt, 1e-2)).toBeGreaterThanOrEqual(0.99);
        expect(Math.max(...prompt)).toBeLessThanOrEqual(5e-2);
      } else {
        expect(Math.max(...prompt)).toBeLessThanOrEqual(5e-3);
      }
      expect(wrongTokens).toEqual([]);
    },
  );

  test.each(ROUNDED.filter(wanted))(
    "%s with quantized activations is near the golden log-probabilities",
    async (model) => {
      const { prompt, best: sameBest } = await answer(model, "wa");
      expect(median(prompt)).toBeLessThanOrEqual(1e-3);
      expect(share(sameBest)).toBeGreaterThanOrEqual(0.98);
    },
  );
});
