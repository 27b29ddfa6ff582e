/**
 * One matrix for one promise: tokens and bits of log-probabilities depend on the request alone, not
 * on how the engine came to them.
 *
 * @module
 */
import { beforeAll, describe, expect, test } from "vitest";
import { smallestCaseOnly } from "../devices/gpu.ts";
import { areOfHead, Exactness, type Outcome, type Run } from "./exactness.ts";
import { EXACT_MODELS, type ExactModel, TOKENS } from "./models.ts";
import { stepsAhead, together } from "./proofs.ts";
import type { Variant } from "./variant.ts";

const BASELINE: Run = {
  alone: true,
  options: { prefixCache: false, overlapSchedule: false, decodeBuckets: false },
};

/** On the slow driver, one form in place of two is only asked what of the cache it may reuse. */
function concerns({ oneForm, first, twice, drafts }: Variant, model: ExactModel): boolean {
  if (model.probes !== undefined && first !== undefined) return false;
  if (model.noneMade && drafts !== undefined && drafts !== true) return false;
  const isOfHead = areOfHead(drafts);
  if (isOfHead || model.head !== undefined) return isOfHead && model.head !== undefined;
  const isOfModel = drafts === "model" || drafts === "model trees";
  if (isOfModel && model.probes !== undefined) return true;
  if (drafts !== undefined && drafts !== true && !model.hasModule) return false;
  if (oneForm && !model.oneForm) return false;
  return !(smallestCaseOnly && model.isForced) || first !== undefined || twice === true;
}

/**
 * Compares every variant with the same baseline, on every model that it concerns, and has it show
 * that what it is named after has happened.
 */
export function testExactness(
  variants: readonly Variant[],
  models: readonly ExactModel[] = EXACT_MODELS,
): void {
  describe.each(models)("$name", (model) => {
    let exactness: Exactness;
    let baseline: Outcome;
    beforeAll(async () => {
      exactness = await Exactness.prepare(model);
      baseline = await exactness.run(BASELINE);
    });

    test("the baseline computes everything, and is not of constants", () => {
      const { answers, cachedTokens } = baseline;
      expect(Object.values(cachedTokens)).toEqual(exactness.probes.map(() => 0));
      expect([together(baseline), stepsAhead(baseline)]).toEqual([1, 0]);
      expect(baseline.keptRows).toEqual([]);
      const all = Object.values(answers).map(([one]) => one!);
      for (const { tokens, finish } of all) {
        expect(tokens).toHaveLength(TOKENS);
        expect(finish).toEqual({ type: "length", length: TOKENS });
      }
      expect(new Set(all.map(({ tokens }) => tokens.join())).size).toBe(all.length);
      const { length } = baseline.watch.prompts.get("adjusted")!;
      expect(answers.adjusted![0]!.promptLogprobs).toHaveLength(length - 5);
      const logprobs = all.flatMap((one) => one.logprobs.map(({ logprob }) => logprob!));
      expect(logprobs.every(Number.isFinite)).toBe(true);
      expect(new Set(logprobs).size).toBeGreaterThan(2 * TOKENS);
    });

    test.each(variants.filter((variant) => concerns(variant, model)))("$name", async (variant) => {
      const outcome = await exactness.run(variant);
      for (const { requestId } of exactness.probes) {
        for (const answer of outcome.answers[requestId]!) {
          expect(answer, requestId).toEqual(baseline.answers[requestId]![0]);
        }
      }
      variant.proof(outcome);
    });
  });
}
