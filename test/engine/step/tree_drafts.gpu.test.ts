/** Trees of drafts change no answer, whatever else the engine does. */
import { expect, test } from "vitest";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { acceptLength } from "../../../src/speculation_figures.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import {
  answer,
  answers,
  GREEDY,
  onlyAnswers,
  REQUESTS,
  STORY,
  withDrafts,
} from "../../support/engines/drafted_requests.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { openLosingEngine } from "../../support/engines/losing_engine.ts";
import { StepWatch } from "../../support/engines/watch_steps.ts";
import { until } from "../../support/until.ts";

const EAGLE = { algorithm: "EAGLE" } as const;
const SMALL = { ...EAGLE, numSteps: 3, eagleTopk: 2, numDraftTokens: 6 };
const LARGE = { ...EAGLE, numSteps: 4, eagleTopk: 4, numDraftTokens: 16 };

const CASES: readonly (readonly [string, typeof SMALL, Partial<LoadOptions>])[] = [
  ["pages of 16, an FP8 cache", SMALL, { pageSize: 16, cacheDtype: "fp8_e4m3" }],
  ["pages of 1", SMALL, { pageSize: 1 }],
  ["large trees, pages of 64", LARGE, { pageSize: 64 }],
  ["mixed chunks of 16", LARGE, { mixedChunks: true, chunkedPrefillSize: 16, pageSize: 4 }],
  ["deterministic inference", SMALL, { deterministicInference: true }],
];

test.each(smallestCaseOnly ? CASES.slice(0, 1) : CASES)(
  "eight requests of every kind at once have the same bits: %s",
  async (_, speculation, given) => {
    const options = { prefixCache: false, ...given };
    await withDrafts(speculation, options, async (plain, drafted) => {
      const want = onlyAnswers(await answers(plain, REQUESTS));
      const got = await answers(drafted, REQUESTS);
      expect(onlyAnswers(got)).toEqual(want);
      const { verifySteps, proposedDrafts, acceptedDrafts } = drafted.status().speculation!;
      expect(acceptedDrafts).toBeGreaterThan(verifySteps);
      expect(proposedDrafts).toBeGreaterThan(acceptedDrafts);
      await until(() => expect(drafted.status()).toMatchObject({ usedTokens: 0 }));
    });
  },
);

test("four samples of one prompt, stop strings and counts end where they do without drafts", async () => {
  await withDrafts(SMALL, { prefixCache: false }, async (plain, drafted) => {
    const { answer: whole } = await answer(plain, { messages: STORY, sampling: GREEDY });
    const stop = [whole.text.slice(12, 17)];
    const counts = smallestCaseOnly ? [2] : [1, 2, 3, 4, 5];
    const requests = [
      ...[1, 2, 3, 4].map((seed) => ({
        messages: STORY,
        sampling: { temperature: 1, seed, maxNewTokens: 20 },
        logprobs: { topCount: 2 },
      })),
      { messages: STORY, sampling: { ...GREEDY, stop } },
      { messages: STORY, sampling: { ...GREEDY, stopTokenIds: [whole.tokens[7]!] } },
      ...counts.map((maxNewTokens) => ({
        messages: STORY,
        sampling: { ...GREEDY, maxNewTokens, ignoreEos: true },
      })),
    ];
    const want = onlyAnswers(await answers(plain, requests));
    expect(onlyAnswers(await answers(drafted, requests))).toEqual(want);
    expect(want[4]!.finish).toEqual({ type: "stop", matched: stop[0] });
  });
});

test("steps go on from trees before the host knows them, up to the end of the context", async () => {
  // Answers end with it, where trees would be deeper than what is left.
  const options = { contextLength: 64, pageSize: 4, prefixCache: false };
  await withDrafts(LARGE, options, async (plain, drafted) => {
    const requests = [1, 0.7].map((temperature, seed) => ({
      messages: STORY,
      sampling: { temperature: seed * temperature, seed, maxNewTokens: 56, ignoreEos: true },
      logprobs: { topCount: 2 },
    }));
    const want = onlyAnswers(await answers(plain, requests));
    const watch = new StepWatch();
    expect(onlyAnswers(await answers(drafted, requests))).toEqual(want);
    watch.stop();
    const trees = watch.steps.filter(({ hasTrees }) => hasTrees);
    const ahead = trees.filter((step) => step.continued.length > 0 && step.ahead > 0);
    expect(ahead.length).toBeGreaterThan(trees.length / 2);
  });
});

// On the slow driver it takes minutes, and tells nothing of it.
test.skipIf(smallestCaseOnly)(
  "trees get more drafts right than chains as deep, of texts that are hard to foresee",
  async () => {
    const chain = await openEngine({
      speculation: { ...EAGLE, numSteps: 3, eagleTopk: 1, numDraftTokens: 4 },
    });
    const trees = await openEngine({
      speculation: { ...EAGLE, numSteps: 3, eagleTopk: 4, numDraftTokens: 24 },
    });
    // Tokens without a sense.
    const requests = Array.from({ length: 6 }, (_, seed) => ({
      tokens: Array.from({ length: 20 }, (_, i) => 3 + ((seed * 97 + i * i * 31) % 2000)),
      sampling: { ...GREEDY, maxNewTokens: 40, ignoreEos: true },
    }));
    const want = onlyAnswers(await answers(chain, requests));
    expect(onlyAnswers(await answers(trees, requests))).toEqual(want);
    const [few, many] = [chain, trees].map((one) => acceptLength(one.status().speculation!));
    expect(many! / few!).toBeGreaterThan(1.05);
    await chain.close();
    await trees.close();
  },
);

// On the slow driver it takes minutes, and tells nothing of it.
test.skipIf(smallestCaseOnly)(
  "thresholds below 1 accept more nodes of sampled answers, and change no greedy one",
  async () => {
    const options = { prefixCache: false };
    const thresholds = { acceptThresholdSingle: 0.2, acceptThresholdAcc: 0.5 };
    const loose = await openEngine({ ...options, speculation: { ...SMALL, ...thresholds } });
    await withDrafts(SMALL, options, async (plain, exact) => {
      const sampled = [1, 2, 3, 4].map((seed) => ({
        messages: STORY,
        sampling: { temperature: 1.5, seed, maxNewTokens: 40, ignoreEos: true },
      }));
      const alone = [];
      for (const one of sampled) alone.push((await answer(loose, one)).answer);
      expect(onlyAnswers(await answers(loose, sampled))).toEqual(alone);
      await answers(exact, sampled);
      const [more, less] = [loose, exact].map((one) => acceptLength(one.status().speculation!));
      expect(more! / less!).toBeGreaterThan(1.05);
      const greedy = { messages: STORY, sampling: GREEDY, logprobs: { topCount: 2 } };
      const want = await answer(plain, greedy);
      expect((await answer(loose, greedy)).answer).toEqual(want.answer);
    });
    await loose.close();
  },
);

test.skipIf(smallestCaseOnly)(
  "answers go on where a device is lost, and no page is left where a request leaves",
  async () => {
    const options = { pageSize: 4, prefixCache: false };
    const plain = await openEngine(options);
    const want = onlyAnswers(await answers(plain, REQUESTS));
    await plain.close();
    const losing = await openLosingEngine({ ...options, speculation: SMALL });
    const { engine, events } = losing;
    losing.lossesAfter = [4, 3];
    expect(onlyAnswers(await answers(engine, REQUESTS))).toEqual(want);
    expect(events.filter(({ kind }) => kind === "started")).toHaveLength(2);
    for (const chunks of [1, 2, 4]) {
      const leaving = new AbortController();
      const sampling = { ...GREEDY, ignoreEos: true };
      const running = engine.generate({ messages: STORY, sampling, signal: leaving.signal });
      for (let i = 0; i < chunks; i++) await running.next();
      leaving.abort();
      await expect(
        (async () => {
          for await (const _ of running);
        })(),
      ).rejects.toMatchObject({ name: "AbortError" });
      await until(() => {
        expect(engine.status()).toMatchObject({ runningRequests: 0, usedTokens: 0 });
      });
    }
    await engine.close();
  },
);
