import { afterAll, beforeAll, expect, test } from "vitest";
import type { LocalRequest } from "../../../src/engine/create_sequence.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { LogitProcessor } from "../../../src/engine/sample/logit_processor.ts";
import { acceptLength, type SpeculationFigures } from "../../../src/speculation_figures.ts";
import { chat, openEngine } from "../../support/engines/engine.ts";

/** Answered by a copy. */
const WORDS = Array.from({ length: 5 }, () => "apple river zobrax").join(" ");
const messages = chat(`Repeat after me: ${WORDS}`);

let plain: Engine;
let drafted: Engine;

beforeAll(async () => {
  // Bits of a prompt that a cached answer is part of are those of the answer.
  const options = { prefixCache: false };
  plain = await openEngine(options);
  drafted = await openEngine({ ...options, speculation: { algorithm: "NGRAM", adaptive: "off" } });
});
afterAll(async () => {
  await plain.close();
  await drafted.close();
});

async function answer(engine: Engine, request: LocalRequest) {
  const tokens: number[] = [];
  const logprobs: (number | null)[] = [];
  let text = "";
  let speculation: SpeculationFigures | undefined;
  let finish: unknown;
  for await (const chunk of engine.generate(request)) {
    for (const token of chunk.tokens) tokens.push(token);
    for (const { logprob } of chunk.logprobs ?? []) logprobs.push(logprob);
    text += chunk.text;
    ({ speculation, finish } = chunk);
  }
  return { answer: { tokens, logprobs, text, finish }, speculation };
}

async function bothAnswers(request: LocalRequest) {
  const want = await answer(plain, request);
  const got = await answer(drafted, request);
  expect(got.answer).toEqual(want.answer);
  expect(want.speculation).toBeUndefined();
  return { answer: got.answer, speculation: got.speculation! };
}

test("an answer that repeats an earlier one gets four tokens a step or more", async () => {
  await drafted.flushCache();
  const sampling = { temperature: 0, maxNewTokens: 100 };
  const one = await bothAnswers({ messages, sampling, logprobs: { topCount: 2 } });
  const { verifySteps, proposedDrafts, acceptedDrafts } = one.speculation;
  expect(acceptLength(one.speculation)).toBeGreaterThan(4);
  expect(verifySteps + acceptedDrafts).toBe(one.answer.tokens.length - 1);
  expect(proposedDrafts).toBeGreaterThanOrEqual(acceptedDrafts);
  expect(drafted.status().speculation).toEqual(one.speculation);
  expect(plain.status().speculation).toBeUndefined();
  await drafted.flushCache();
  expect(drafted.status().speculation!.verifySteps).toBe(0);
});

test("drafts count as tokens only once they are accepted", async () => {
  for (const maxNewTokens of [1, 2, 3, 5, 8, 30, 31]) {
    const sampling = { temperature: 0, maxNewTokens, ignoreEos: true };
    const { answer: got, speculation } = await bothAnswers({ messages, sampling });
    expect(got.tokens).toHaveLength(maxNewTokens);
    expect(got.finish).toEqual({ type: "length", length: maxNewTokens });
    const { verifySteps, acceptedDrafts } = speculation;
    expect(verifySteps + acceptedDrafts).toBe(maxNewTokens - 1);
  }
});

test("stop strings and stop tokens end an answer in the middle of accepted drafts", async () => {
  const base = { temperature: 0, maxNewTokens: 60 };
  const { answer: whole } = await bothAnswers({ messages, sampling: base });
  const stop = await bothAnswers({
    messages,
    sampling: { ...base, stop: ["brax apple river zobrax ap"] },
  });
  expect(stop.answer.finish).toEqual({ type: "stop", matched: "brax apple river zobrax ap" });
  expect(stop.speculation.acceptedDrafts).toBeGreaterThan(0);
  for (const at of [20, 21, 22, 23]) {
    const stopTokenIds = [whole.tokens[at]!];
    const ids = await bothAnswers({
      messages,
      sampling: { ...base, stopTokenIds, minNewTokens: at },
    });
    expect(ids.answer.finish).toEqual({ type: "stop", matched: stopTokenIds[0] });
    expect(ids.answer.tokens.length).toBeGreaterThanOrEqual(at);
  }
});

test("penalties, biases and filters see the drafts before a token", async () => {
  let accepted = 0;
  for (const seed of [1, 2, 3, 4]) {
    const sampling = {
      ...{ seed, temperature: 0.5, topP: 0.95, topK: 40, minP: 0.01, maxNewTokens: 40 },
      ...{ frequencyPenalty: 0.05, presencePenalty: 0.1, repetitionPenalty: 1.02 },
      ...{ minNewTokens: 30, logitBias: { 900: 1 }, ignoreEos: seed % 2 === 0 },
    };
    const one = await bothAnswers({ messages, sampling, logprobs: { topCount: 1 } });
    accepted += one.speculation.acceptedDrafts;
  }
  expect(accepted).toBeGreaterThan(10);
});

test("a logit processor gets the drafts before a row among its tokens", async () => {
  const rows = (engine: Engine) => {
    const seen = new Set<string>();
    const processor: LogitProcessor = ({ tokens, logits }) => {
      seen.add(tokens.join());
      logits[tokens.at(-1)!]! -= 0.5;
    };
    const request = { messages, sampling: { temperature: 0, maxNewTokens: 40 } };
    return answer(engine, { ...request, logitProcessors: [processor] }).then((one) => ({
      one,
      seen,
    }));
  };
  const want = await rows(plain);
  const got = await rows(drafted);
  expect(got.one.answer).toEqual(want.one.answer);
  expect(got.one.speculation!.acceptedDrafts).toBeGreaterThan(10);
  // All that a plain step sees, and rows of drafts that were refused.
  expect([...want.seen].every((one) => got.seen.has(one))).toBe(true);
});

test("a grammar allows what it would allow without drafts", async () => {
  const item = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } } };
  const jsonSchema = {
    type: "array",
    items: { ...item, required: ["city"], additionalProperties: false },
    minItems: 6,
    maxItems: 9,
  };
  let accepted = 0;
  let proposed = 0;
  for (const seed of [1, 2]) {
    const sampling = { jsonSchema, temperature: 0.8, maxNewTokens: 150, seed };
    // Log-probabilities leave no text to be forced, so that drafts are what the grammar wants.
    for (const logprobs of [undefined, { topCount: 1 }]) {
      const one = await bothAnswers({
        messages: chat("Write a JSON array of cities."),
        sampling,
        ...(logprobs && { logprobs }),
      });
      expect(JSON.parse(one.answer.text).length).toBeGreaterThan(5);
      accepted += one.speculation.acceptedDrafts;
      proposed += one.speculation.proposedDrafts;
    }
  }
  expect(accepted).toBeGreaterThan(20);
  expect(proposed).toBeGreaterThan(accepted);
});
