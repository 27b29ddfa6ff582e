import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { folderSource, SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { ReferenceDeepseek } from "../support/reference/reference_deepseek.ts";
import { ReferenceGqa } from "../support/reference/reference_gqa.ts";

interface GoldenCase {
  readonly input_ids: readonly number[];
  readonly prompt_top20: {
    readonly ids: readonly (readonly number[])[];
    readonly logprobs: readonly (readonly number[])[];
  };
  readonly greedy: { readonly ids: readonly number[]; readonly top20: GoldenCase["prompt_top20"] };
}

/** |difference| of every listed log-probability of the first cases, completion included. */
async function differences(model: string, mode: string, cases: number): Promise<number[]> {
  const file = join(SHARED_MODELS!, "../golden", `${model}.${mode}.json`);
  const golden = JSON.parse(readFileSync(file, "utf8")) as { cases: GoldenCase[] };
  const Reference = model.includes("deepseek") ? ReferenceDeepseek : ReferenceGqa;
  const reference = await Reference.open(folderSource(join(SHARED_MODELS!, model)), {
    roundCache: mode !== "w.f32kv",
    quantizeActivations: mode === "wa",
  });
  const out: number[] = [];
  for (const { input_ids, prompt_top20, greedy } of golden.cases.slice(0, cases)) {
    const rows = reference.logProbabilities([...input_ids, ...greedy.ids]);
    const compare = (top: GoldenCase["prompt_top20"], first: number) => {
      top.ids.forEach((ids, i) => {
        ids.forEach((id, k) => {
          out.push(Math.abs(rows[first + i]![id]! - top.logprobs[i]![k]!));
        });
      });
    };
    compare(prompt_top20, 0);
    compare(greedy.top20, input_ids.length - 1);
  }
  return out.sort((a, b) => a - b);
}

describe.skipIf(SHARED_MODELS === undefined)("the reference (needs ../shared/data)", () => {
  test.each([
    ["mini-deepseek-v3-fp8", 8],
    ["mini-deepseek-v2-lite", 8],
    ["tiny-deepseek-v3-fp8", 1],
    ["mini-llama", 8],
    ["mini-qwen3", 8],
    ["mini-qwen3-moe", 8],
  ])("gives the golden log-probabilities of %s", async (model, cases) => {
    const errors = await differences(model, "w.f32kv", cases);
    expect(errors.at(-1)).toBeLessThanOrEqual(3e-4);
  });

  test.each([
    ["mini-llama-awq", 8],
    ["mini-llama-int8", 8],
    ["tiny-deepseek-v3-awq", 1],
    ["tiny-deepseek-v3-int8", 1],
  ])("gives those of %s, its cache rounded", async (model, cases) => {
    const errors = await differences(model, "w", cases);
    expect(errors.at(-1)).toBeLessThanOrEqual(5e-3);
  });

  test.each(["mini-deepseek-v3-fp8", "mini-llama-int8"])(
    "gives those of %s with quantized activations",
    async (model) => {
      const errors = await differences(model, "wa", 8);
      expect(errors[errors.length >> 1]).toBeLessThanOrEqual(1e-3);
    },
  );
});
