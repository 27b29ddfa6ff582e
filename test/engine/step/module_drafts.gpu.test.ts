/** Drafts of the checkpoint's own module change no answer, whatever else the engine does. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LocalRequest } from "../../../src/engine/create_sequence.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { acceptLength } from "../../../src/speculation_figures.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import {
  answer,
  answers,
  CHATS,
  GREEDY,
  onlyAnswers,
  REQUESTS,
  STORY,
  withDrafts,
} from "../../support/engines/drafted_requests.ts";
import { chat, openEngine } from "../../support/engines/engine.ts";
import { until } from "../../support/until.ts";

/** Three drafts, whether they pay or not. */
const SPECULATION = { algorithm: "EAGLE", adaptive: "off" } as const;
const ONE = { numSteps: 1, eagleTopk: 1, numDraftTokens: 2 };

/** Runs a plain and a drafted engine of the same options. */
const withBoth = (
  options: Partial<LoadOptions>,
  work: (plain: Engine, drafted: Engine) => Promise<void>,
) => withDrafts(SPECULATION, options, work);

describe("an engine that drafts by the checkpoint's module", () => {
  // Bits of a prompt that a cached answer is part of are those of the answer.
  const options = { prefixCache: false };
  let plain: Engine;
  let drafted: Engine;
  beforeAll(async () => {
    plain = await openEngine(options);
    drafted = await openEngine({ ...options, speculation: SPECULATION });
  });
  afterAll(async () => {
    await plain.close();
    await drafted.close();
  });

  async function bothAnswers(request: LocalRequest) {
    const want = await answer(plain, request);
    const got = await answer(drafted, request);
    expect(got.answer).toEqual(want.answer);
    expect(want.speculation).toBeUndefined();
    return { answer: got.answer, speculation: got.speculation! };
  }

  test("gets three and a half tokens a step or more of what the model has learned", async () => {
    await drafted.flushCache();
    let tokens = 0;
    for (const content of smallestCaseOnly ? CHATS.slice(0, 1) : CHATS) {
      const request = { messages: chat(content), sampling: GREEDY, logprobs: { topCount: 2 } };
      const one = await bothAnswers(request);
      expect(one.answer.logprobs).toHaveLength(one.answer.tokens.length);
      // A right draft counts where it was one token more, not behind an answer's end.
      const { verifySteps, acceptedDrafts } = one.speculation;
      expect(verifySteps + acceptedDrafts, content).toBe(one.answer.tokens.length - 1);
      tokens += one.answer.tokens.length - 1;
    }
    const figures = drafted.status().speculation!;
    expect(acceptLength(figures)).toBeGreaterThanOrEqual(3.5);
    expect(figures.verifySteps + figures.acceptedDrafts).toBe(tokens);
  });

  test.skipIf(smallestCaseOnly)("gets the first draft right nineteen times in twenty", async () => {
    const one = await openEngine({ ...options, speculation: { ...SPECULATION, ...ONE } });
    const requests = CHATS.map((content) => ({ messages: chat(content), sampling: GREEDY }));
    expect(onlyAnswers(await answers(one, requests))).toEqual(
      onlyAnswers(await answers(plain, requests)),
    );
    const { acceptedDrafts, proposedDrafts } = one.status().speculation!;
    expect(acceptedDrafts / proposedDrafts).toBeGreaterThanOrEqual(0.95);
    await one.close();
  });

  test("ends answers at the exact token, string or count in the middle of drafts", async () => {
    const counts = smallestCaseOnly ? [1, 3] : [1, 2, 3, 4, 5, 9, 10, 11];
    for (const maxNewTokens of counts) {
      const sampling = { ...GREEDY, maxNewTokens, ignoreEos: true };
      const { answer: got, speculation } = await bothAnswers({ messages: STORY, sampling });
      expect(got.tokens).toHaveLength(maxNewTokens);
      expect(got.finish).toEqual({ type: "length", length: maxNewTokens });
      expect(speculation.verifySteps + speculation.acceptedDrafts).toBe(maxNewTokens - 1);
    }
    const sampling = { ...GREEDY, maxNewTokens: 20 };
    const { answer: whole } = await bothAnswers({ messages: STORY, sampling });
    const stop = [whole.text.slice(12, 17)];
    const string = await bothAnswers({ messages: STORY, sampling: { ...sampling, stop } });
    expect(string.answer.finish).toEqual({ type: "stop", matched: stop[0] });
    for (const at of smallestCaseOnly ? [6] : [6, 7, 8, 9]) {
      const stopTokenIds = [whole.tokens[at]!];
      const given = { ...sampling, stopTokenIds, minNewTokens: at };
      const { answer: got } = await bothAnswers({ messages: STORY, sampling: given });
      expect(got.finish).toEqual({ type: "stop", matched: stopTokenIds[0] });
      expect(got.tokens.length).toBeGreaterThanOrEqual(at);
    }
  });

  test("leaves no page behind, whenever a request ends", async () => {
    const controllers = smallestCaseOnly ? [1] : [1, 2, 3, 4, 5, 6];
    for (const chunks of controllers) {
      const leaving = new AbortController();
      const sampling = { ...GREEDY, ignoreEos: true };
      const request = { messages: STORY, sampling, signal: leaving.signal };
      const running = drafted.generate(request);
      const beside = answer(drafted, { messages: chat(CHATS[1]!), sampling: GREEDY });
      for (let i = 0; i < chunks; i++) await running.next();
      leaving.abort();
      const rest = (async () => {
        for await (const _ of running);
      })();
      await expect(rest).rejects.toMatchObject({ name: "AbortError" });
      await beside;
      await until(() => {
        expect(drafted.status()).toMatchObject({ runningRequests: 0, usedTokens: 0 });
      });
    }
  });
});

describe("eight requests of every kind at once have the same bits", () => {
  const cases: readonly (readonly [string, Partial<LoadOptions>])[] = [
    ["pages of 1", { pageSize: 1, prefixCache: false }],
    ["pages of 16, an FP8 cache", { pageSize: 16, cacheDtype: "fp8_e4m3", prefixCache: false }],
    [
      "mixed chunks of 16",
      { mixedChunks: true, chunkedPrefillSize: 16, pageSize: 4, prefixCache: false },
    ],
    ["deterministic inference", { deterministicInference: true }],
  ];
  test.each(smallestCaseOnly ? cases.slice(1, 2) : cases)("%s", async (_, options) => {
    await withBoth(options, async (plain, drafted) => {
      const want = onlyAnswers(await answers(plain, REQUESTS));
      const got = await answers(drafted, REQUESTS);
      expect(onlyAnswers(got)).toEqual(want);
      const { verifySteps, proposedDrafts, acceptedDrafts } = drafted.status().speculation!;
      expect(acceptedDrafts).toBeGreaterThan(verifySteps);
      expect(proposedDrafts).toBeGreaterThan(acceptedDrafts);
      await until(() => expect(drafted.status()).toMatchObject({ usedTokens: 0 }));
    });
  });
});

test("as many requests as may run, more than a size whose launches are kept, have room", async () => {
  const options = { maxRunningRequests: 9, prefixCache: false };
  const one = { messages: STORY, sampling: { ...GREEDY, maxNewTokens: 12 } };
  const nine = Array.from({ length: 9 }, (_, i) => ({
    ...one,
    sampling: { ...one.sampling, temperature: 0.5, seed: i },
  }));
  await withBoth(options, async (plain, drafted) => {
    const want = onlyAnswers(await answers(plain, nine));
    expect(onlyAnswers(await answers(drafted, nine))).toEqual(want);
    expect(drafted.status().speculation!.acceptedDrafts).toBeGreaterThan(0);
  });
});

test("drafts of a prompt that is cached are as good as of one that is computed", async () => {
  await withBoth({ pageSize: 4 }, async (plain, drafted) => {
    const request = {
      messages: chat(CHATS[0]!),
      sampling: { ...GREEDY, ignoreEos: false },
      logprobs: { topCount: 2 },
    };
    const want = await answer(plain, request);
    const first = await answer(drafted, request);
    const second = await answer(drafted, request);
    expect(first.answer).toEqual(want.answer);
    expect(second.answer).toEqual(want.answer);
    expect(second.cachedTokens).toBeGreaterThan(0);
    const lengths = [first, second].map(({ speculation }) => acceptLength(speculation!));
    expect(lengths[1]).toBeGreaterThanOrEqual(0.9 * lengths[0]!);
  });
});

describe("answers end with the context where they do without drafts", () => {
  // As many tokens as the context leaves.
  const sampling = { temperature: 0, ignoreEos: true };
  const copied = chat("Repeat after me: apple river zobrax apple river");
  const requests: readonly LocalRequest[] = [
    { messages: STORY, sampling },
    { messages: copied, sampling, logprobs: { topCount: 1 } },
    { messages: copied, sampling: { ...sampling, temperature: 0.6, seed: 2 }, cacheSalt: "other" },
  ];
  test.each([
    ["the module", SPECULATION],
    ["n-grams", { algorithm: "NGRAM", numDraftTokens: 8 } as const],
  ])("of %s, of any partition, in a profile too", async (_, speculation) => {
    const contextLength = 48;
    await withDrafts(speculation, { contextLength, pageSize: 4 }, async (plain, drafted) => {
      for (const request of requests) {
        const want = await answer(plain, request);
        let got: typeof want | undefined;
        const profile = await drafted.profile(async () => {
          got = await answer(drafted, request);
        });
        expect(got!.answer).toEqual(want.answer);
        const { verifySteps, acceptedDrafts } = got!.speculation!;
        const { length } = want.answer.tokens;
        expect(verifySteps + acceptedDrafts).toBe(length - 1);
        expect(want.answer.finish).toEqual({ type: "length", length });
        expect(length).toBeGreaterThan(10);
        expect(length).toBeLessThan(contextLength);
        // A step of its prompt, and those that verify.
        expect(profile.steps).toBeGreaterThanOrEqual(1 + verifySteps);
      }
      expect(drafted.status().speculation!.acceptedDrafts).toBeGreaterThan(10);
    });
  });
});
