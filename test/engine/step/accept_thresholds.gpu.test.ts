/** Thresholds below 1 accept drafts that would not be drawn: how many, and what stays as it is. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LocalRequest } from "../../../src/engine/create_sequence.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { SpeculationFigures } from "../../../src/speculation_figures.ts";
import { chat, openEngine } from "../../support/engines/engine.ts";

const STORY = chat("Tell me a story.");
/** Far from what drafts are good at. */
const WILD = { temperature: 2, ignoreEos: true, maxNewTokens: 41 };
const wild = (seed: number, more: object = {}): LocalRequest => ({
  messages: STORY,
  sampling: { ...WILD, seed, ...more },
});
const PERSON = {
  type: "object",
  properties: { name: { type: "string", maxLength: 5 }, age: { type: "integer", maximum: 99 } },
  required: ["name", "age"],
  additionalProperties: false,
};

async function answer(engine: Engine, request: LocalRequest) {
  const tokens: number[] = [];
  let text = "";
  let speculation: SpeculationFigures | undefined;
  for await (const chunk of engine.generate(request)) {
    for (const token of chunk.tokens) tokens.push(token);
    text += chunk.text;
    ({ speculation } = chunk);
  }
  return { tokens, text, speculation: speculation! };
}

/** @param single Also what coins are divided by. */
const open = (single: number, options: Partial<LoadOptions> = {}) =>
  openEngine({
    prefixCache: false,
    ...options,
    speculation: {
      algorithm: "EAGLE",
      // With thresholds of 1 too.
      adaptive: "off",
      acceptThresholdSingle: single,
      acceptThresholdAcc: single,
      ...options.speculation,
    },
  });

describe("thresholds of 0", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await open(0);
  });
  afterAll(() => engine.close());

  test("accept every draft", async () => {
    const { tokens, speculation } = await answer(engine, wild(1));
    expect(tokens).toHaveLength(WILD.maxNewTokens);
    // The prompt's step gives the first token; each further one its three drafts and one token.
    expect(speculation).toEqual({ verifySteps: 10, proposedDrafts: 30, acceptedDrafts: 30 });
  });

  test("accept none that a grammar forbids", async () => {
    const sampling = { temperature: 1.5, seed: 5, maxNewTokens: 60, jsonSchema: PERSON };
    const { text } = await answer(engine, { messages: chat("A person as JSON."), sampling });
    expect(Object.keys(JSON.parse(text))).toEqual(["name", "age"]);
  });

  test("accept no token that may not end the answer yet", async () => {
    const plain = await answer(engine, wild(1));
    const sampling = { ...WILD, seed: 1, ignoreEos: false };
    const stopTokenIds = [...new Set(plain.tokens)];
    const early = await answer(engine, {
      messages: STORY,
      sampling: { ...sampling, minNewTokens: 20, stopTokenIds },
    });
    expect(early.tokens.length).toBeGreaterThanOrEqual(20);
    expect(early.tokens.slice(0, 20).filter((id) => stopTokenIds.includes(id))).toEqual([]);
  });

  test("leave a greedy answer as it is", async () => {
    const plain = await openEngine({ prefixCache: false });
    const greedy = wild(1, { temperature: 0 });
    const beside = answer(engine, wild(2));
    expect((await answer(engine, greedy)).tokens).toEqual((await answer(plain, greedy)).tokens);
    await beside;
    await plain.close();
  });
});

describe("thresholds of a half", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await open(0.5);
  });
  afterAll(() => engine.close());

  test("accept more than those of 1, and not all", async () => {
    const exact = await open(1);
    const seeds = [1, 2, 3, 4];
    const rateOf = async (of: Engine) => {
      const all = await Promise.all(seeds.map((seed) => answer(of, wild(seed))));
      const sum = (what: keyof SpeculationFigures) =>
        all.reduce((total, { speculation }) => total + speculation[what], 0);
      return sum("acceptedDrafts") / sum("proposedDrafts");
    };
    const rate = await rateOf(engine);
    expect(rate).toBeGreaterThan(await rateOf(exact));
    expect(rate).toBeLessThan(1);
    await exact.close();
  });

  test("give a seed one answer, whatever runs beside it and ahead", async () => {
    const requests = [4, 5, 6].map((seed) => wild(seed, { topK: 50, topP: 0.95, minP: 0.01 }));
    const alone = [];
    for (const request of requests) alone.push((await answer(engine, request)).tokens);
    const together = await Promise.all(requests.map((request) => answer(engine, request)));
    expect(together.map(({ tokens }) => tokens)).toEqual(alone);
    const waiting = await open(0.5, { overlapSchedule: false });
    expect((await answer(waiting, requests[0]!)).tokens).toEqual(alone[0]);
    await waiting.close();
  });
});

test("thresholds hold for trees", async () => {
  const numbers = { numSteps: 3, eagleTopk: 2, numDraftTokens: 6 };
  const engine = await open(0, { speculation: { algorithm: "EAGLE", ...numbers } });
  const { tokens, speculation } = await answer(engine, wild(1));
  const { verifySteps, acceptedDrafts } = speculation;
  expect(verifySteps + acceptedDrafts).toBe(tokens.length - 1);
  // Of each step at least the first child of the newest token, but of one that ends the answer.
  expect(acceptedDrafts).toBeGreaterThanOrEqual(verifySteps - 1);
  expect((await answer(engine, wild(1))).tokens).toEqual(tokens);
  await engine.close();
});

test("thresholds hold for n-grams", async () => {
  const engine = await open(0, { speculation: { algorithm: "NGRAM", adaptive: "off" } });
  const { speculation } = await answer(engine, {
    messages: chat("one two three one two three one two three one"),
    sampling: { ...WILD, seed: 1, temperature: 0.5 },
  });
  expect(speculation.proposedDrafts).toBeGreaterThan(0);
  expect(speculation.acceptedDrafts).toBe(speculation.proposedDrafts);
  await engine.close();
});
