/**
 * What a model answers about images, beside the golden data, and whether its bits are always the same.
 *
 * @module
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { openVisionEngine, see, VISION_MODEL, type VisionModel } from "../engines/vision_engine.ts";
import { type VisionCase, visionCases, visionRequest } from "./vision_cases.ts";

/** What the golden data allows with keys and values in f32. */
const TOLERANCE = 3e-4;
/** Two tokens that are as near are a tie. */
const CLOSE = 0.05;

const OTHER_ENGINES: readonly Partial<LoadOptions>[] = [
  { prefixCache: false },
  { prefixCache: false, speculation: { algorithm: "NGRAM" } },
  // Room for the longest prompt, and not for all answers.
  { maxTotalTokens: 0, pageSize: 4, scheduleConservativeness: 0 },
];

/** Tokens that the prompts below and their answers do not all fit into, and tokens of an answer. */
const SHORT: Readonly<Record<VisionModel, { readonly room: number; readonly answer: number }>> = {
  "mini-smolvlm": { room: 172, answer: 16 },
  "mini-llava": { room: 124, answer: 40 },
  "mini-qwen2.5-vl": { room: 240, answer: 16 },
  "mini-deepseek-vl2": { room: 108, answer: 16 },
};

/** Defines the tests of a model's answers, which skip where its files are absent. */
export function testVisionAnswers(model: VisionModel): void {
  describe.skipIf(VISION_MODEL === undefined)(
    `answers of ${model} about images (needs ../shared/data)`,
    () => {
      let engine: Engine;
      let cases: readonly VisionCase[];
      beforeAll(async () => {
        cases = visionCases(model);
        // Chunks end inside of images.
        engine = await openVisionEngine({ cacheDtype: "f32", maxPrefillTokens: 48 }, model);
      });
      afterAll(() => engine?.close());

      test("each prompt's tokens, log-probabilities and greedy answer, then again from the cache", async () => {
        expect(cases.length).toBeGreaterThan(19);
        for (const one of cases) {
          const request = visionRequest(one);
          const first = await see(engine, request);
          expect(first.promptTokens, one.name).toBe(one.input_ids.length);
          one.input_ids.forEach((id, i) => {
            const at = `${one.name}, position ${i}`;
            const got = first.prompt[i]!;
            if (id === one.image_token_id) {
              expect(got, at).toEqual({ token: null, logprob: null, top: null, given: null });
              return;
            }
            expect(got.token, at).toBe(id);
            if (i === 0) expect(got.logprob).toBeNull();
            else
              expect(Math.abs(got.logprob! - one.input_logprobs[i]!), at).toBeLessThan(TOLERANCE);
          });
          const tie = one.greedy.margin.findIndex((margin) => margin <= CLOSE);
          const sure = tie < 0 ? one.greedy.ids.length : tie;
          expect(first.tokens.slice(0, sure), one.name).toEqual(one.greedy.ids.slice(0, sure));

          const again = await see(engine, { ...request, logprobs: {} });
          expect(again.cachedTokens, one.name).toBe(one.input_ids.length - 1);
          expect([again.tokens, again.logprobs]).toEqual([first.tokens, first.logprobs]);
        }
      });

      test("bits depend neither on chunks nor on neighbours nor on drafts nor on retractions", async () => {
        const asked = ["two_images", "same_image_twice", "photo", "text_first"].map((name) => ({
          ...visionRequest(cases.find((one) => one.name === name)!),
          sampling: { temperature: 0, maxNewTokens: SHORT[model].answer, ignoreEos: true },
          logprobs: {},
        }));
        await engine.flushCache();
        const want = await inTurn(asked, (request) => see(engine, request));
        for (const given of OTHER_ENGINES) {
          const isShort = "maxTotalTokens" in given;
          const options = isShort ? { ...given, maxTotalTokens: SHORT[model].room } : given;
          const other = await openVisionEngine({ cacheDtype: "f32", ...options }, model);
          const got = await Promise.all(asked.map((request) => see(other, request)));
          const bits = (answers: typeof got) =>
            answers.map(({ tokens, logprobs }) => [tokens, logprobs]);
          expect(bits(got), JSON.stringify(options)).toEqual(bits(want));
          expect(other.status().retractions > 0).toBe(isShort);
          await other.close();
        }
      });
    },
  );
}

async function inTurn<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const item of items) results.push(await work(item));
  return results;
}
