/** Thoughts that end at their limit: what comes before it is as it was, and the mark follows. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { thinkingLimitOf } from "../../../src/engine/sample/thinking_limit.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import { answer } from "../../support/engines/drafted_requests.ts";
import { chat, complete, openEngine } from "../../support/engines/engine.ts";

const thinking = { begin: "<think>", end: "</think>", isOpen: true };
const messages = chat("What is 17 + 25?");
const sampling = {
  temperature: 0,
  maxNewTokens: 16,
  shownSpecialTokens: [thinking.begin, thinking.end],
};
const asked = { messages, thinking, sampling, templateVariables: { thinking: true } };

const TREES = "with trees of drafts in mixed steps";

describe("the engine", () => {
  const engines: Record<string, Engine> = {};
  let end: number;
  /** Tokens of the thought without a limit. */
  let thought: readonly number[];

  beforeAll(async () => {
    engines.plain = await openEngine();
    engines["with drafts of n-grams"] = await openEngine({
      speculation: { algorithm: "NGRAM", adaptive: "off" },
    });
    engines["with drafts of its module"] = await openEngine({
      speculation: {
        algorithm: "NEXTN",
        adaptive: "off",
        numSteps: 3,
        eagleTopk: 1,
        numDraftTokens: 4,
      },
    });
    engines[TREES] = await openEngine({
      ...{ mixedChunks: true, chunkedPrefillSize: 16, pageSize: 4 },
      speculation: { algorithm: "EAGLE", numSteps: 3, eagleTopk: 2, numDraftTokens: 6 },
    });
    [end] = (await engines.plain.tokenize({ prompt: thinking.end, addSpecialTokens: false })) as [
      number,
    ];
    ({ tokens: thought } = await complete(engines.plain, asked));
    expect(thought).not.toContain(end);
  });
  afterAll(async () => {
    for (const engine of Object.values(engines)) await engine.close();
  });

  const limited = (
    name: string,
    maxThinkingTokens: number,
    more: Partial<GenerationRequest> = {},
  ) => complete(engines[name]!, { ...asked, ...more, maxThinkingTokens });

  const drafting = ["with drafts of n-grams", "with drafts of its module", TREES];
  test.each(["plain", ...drafting])(
    "%s ends a thought behind its limit, and no sooner",
    async (name) => {
      for (const limit of [0, 2, 7]) {
        const { tokens } = await limited(name, limit);
        expect(tokens.indexOf(end)).toBe(limit);
        expect(tokens.slice(0, limit)).toEqual(thought.slice(0, limit));
        expect(tokens).toEqual((await limited("plain", limit)).tokens);
      }
    },
  );

  test("leaves a thought that is as long as it may be as it is", async () => {
    const whole = { sampling: { ...sampling, maxNewTokens: 60 } };
    const want = await complete(engines.plain!, { ...asked, ...whole });
    const length = want.tokens.indexOf(end);
    expect(length).toBeGreaterThan(7);
    expect((await limited("plain", length, whole)).tokens).toEqual(want.tokens);
  });

  test("knows a thought that the model begins itself, and an answer without one", async () => {
    const closed = { templateVariables: {}, thinking: { ...thinking, isOpen: false } };
    const { text } = await limited("plain", 2, closed);
    expect(text).toMatch(/^<think>\n[^\n]{1,12}<\/think>/);
    const request = { ...asked, ...closed, messages: chat("Repeat after me: apple river") };
    const want = await complete(engines.plain!, request);
    expect(want.text).not.toContain(thinking.begin);
    const got = await complete(engines.plain!, { ...request, maxThinkingTokens: 0 });
    expect(got.tokens).toEqual(want.tokens);
  });

  test("answers in its form behind a thought that was ended", async () => {
    const form = { ...sampling, regex: "[0-9]{2}" };
    const { text, tokens } = await limited("plain", 4, { sampling: form });
    expect(tokens.indexOf(end)).toBe(4);
    expect(text).toMatch(/<\/think>\n*[0-9]{2}$/);
  });

  test.each(drafting)(
    "%s ends thoughts beside grammars, penalties and prompts alike",
    async (name) => {
      const requests: { readonly limit: number; readonly more: Partial<GenerationRequest> }[] = [
        { limit: 7, more: { logprobs: { topCount: 2 } } },
        { limit: 4, more: { sampling: { ...sampling, regex: "[0-9]{2}" } } },
        { limit: 5, more: { sampling: { ...sampling, maxNewTokens: 24, frequencyPenalty: 0.3 } } },
        {
          limit: 3,
          more: { sampling: { ...sampling, temperature: 0.8, seed: 5, jsonSchema: {} } },
        },
        { limit: 0, more: { messages: chat(`Repeat after me: ${"apple river ".repeat(8)}`) } },
      ];
      const answers = (engine: string) =>
        Promise.all(
          requests.map(async ({ limit: maxThinkingTokens, more }) => {
            const request = { ...asked, ...more, maxThinkingTokens };
            return (await answer(engines[engine]!, request)).answer;
          }),
        );
      expect(await answers(name)).toEqual(await answers("plain"));
      expect(engines[name]!.status().speculation!.acceptedDrafts).toBeGreaterThan(0);
    },
  );

  test("is one step a token where log-probabilities are told", async () => {
    const { tokens, last } = await limited("plain", 3, { logprobs: {} });
    expect(tokens.indexOf(end)).toBe(3);
    expect(last.finish).not.toBeNull();
  });

  test("refuses what is no number, and a limit of what it knows nothing of", async () => {
    await expect(limited("plain", -1)).rejects.toThrow("maxThinkingTokens must be a whole number");
    const { thinking: _, ...rest } = asked;
    const unknown = complete(engines.plain!, { ...rest, maxThinkingTokens: 1 });
    await expect(unknown).rejects.toThrow("the request says nothing of thinking");
  });
});

/** A token a character: marks of several tokens. */
describe("a mark of several tokens", () => {
  const tokenizer = {
    encode: (text: string) => Array.from(text, (one) => one.charCodeAt(0)),
    decode: (tokens: readonly number[]) => String.fromCharCode(...tokens),
  };

  /** The model says `wants`, where it may. */
  function said(wants: string, limit: number, isOpen = true): string {
    const request = { maxThinkingTokens: limit, thinking: { ...thinking, isOpen } };
    const state = thinkingLimitOf(request, { tokenizer, vocabularySize: 128 })!;
    const tokens: number[] = [];
    for (let i = 0; i < wants.length + 8; i++) {
      const { mask } = state;
      const forced =
        mask &&
        Array.from({ length: 128 }, (_, t) => t).filter((t) => mask[t >> 5]! & (2 ** (t & 31)));
      if (forced !== undefined) expect(forced).toHaveLength(1);
      if (forced === undefined && i >= wants.length) break;
      const token = forced?.[0] ?? wants.charCodeAt(i);
      tokens.push(token);
      state.push(token);
    }
    return tokenizer.decode(tokens);
  }

  test.each<[string, number, string, boolean?]>([
    ["abcdefghijklmnop", 3, "abc</think>lmnop"],
    // What the model has begun of the mark is not said twice.
    ["abc</thxxxxxxxxx", 6, "abc</think>xxxxx"],
    ["ab</think>cdefghijkl", 20, "ab</think>cdefghijkl"],
    ["<think>abcdefghijklm", 2, "<think>ab</think>klm", false],
    [" \n <think>abcdefghi", 1, " \n <think>a</think>", false],
    ["<thing>abcdefghijk", 0, "<thing>abcdefghijk", false],
  ])("%j with %i tokens of thought becomes %j", (wants, limit, got, isOpen) => {
    expect(said(wants, limit, isOpen)).toBe(got);
  });
});
