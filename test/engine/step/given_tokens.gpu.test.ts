/** An answer that begins with tokens which were drawn elsewhere goes on as it would have gone on there. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LocalRequest } from "../../../src/engine/create_sequence.ts";
import type { Engine } from "../../../src/engine/engine.ts";
import type { GenerationChunk } from "../../../src/generation.ts";
import { openEngine } from "../../support/engines/engine.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine({ pageSize: 4, jsonJump: "retokenize" });
});
afterAll(() => engine.close());

/** Chunks that have tokens, or end it: what of them does not follow the clock or the cache. */
async function chunksOf(request: LocalRequest) {
  const chunks: Partial<GenerationChunk>[] = [];
  for await (const { tokens, text, completionTokens, finish } of engine.generate(request)) {
    if (tokens.length > 0 || finish !== null)
      chunks.push({ tokens, text, completionTokens, finish });
  }
  return chunks;
}

const SCHEMA =
  '{"type":"object","properties":{"name":{"type":"string","maxLength":6}},"required":["name"]}';
const PENALTIES = { frequencyPenalty: 0.5, presencePenalty: 0.2, repetitionPenalty: 1.1 };

const REQUESTS: Readonly<Record<string, LocalRequest>> = {
  greedy: { prompt: "Once upon a time", sampling: { temperature: 0, maxNewTokens: 12 } },
  "drawn, with penalties": {
    tokens: [5, 9, 5, 9, 7],
    sampling: { temperature: 1, seed: 3, maxNewTokens: 12, minNewTokens: 5, ...PENALTIES },
  },
  "bound to a schema": {
    messages: [{ role: "user", content: "Name?" }],
    sampling: { temperature: 1, seed: 4, maxNewTokens: 40, jsonSchema: SCHEMA },
  },
  "with a stop string": {
    prompt: "The capital of Japan",
    sampling: { temperature: 0, maxNewTokens: 24, stop: ["yo", "ok"] },
  },
};

describe.each(Object.entries(REQUESTS))("%s", (_, request) => {
  test("the same chunks come, wherever it was cut", async () => {
    const whole = await chunksOf(request);
    const tokens = whole.flatMap((chunk) => chunk.tokens ?? []);
    expect(tokens.length).toBeGreaterThan(3);
    for (const cut of [1, 3, tokens.length - 1, tokens.length]) {
      expect(await chunksOf({ ...request, given: tokens.slice(0, cut) }), `${cut}`).toEqual(whole);
    }
    // Nothing behind its end is taken.
    expect(await chunksOf({ ...request, given: tokens })).toEqual(whole);
    expect(engine.status()).toMatchObject({ runningRequests: 0, usedTokens: 0 });
  });
});

test("what no answer begins with is refused", async () => {
  const request = { tokens: [5, 9], sampling: { maxNewTokens: 2 } };
  await expect(chunksOf({ ...request, given: [1, 2, 3] })).rejects.toThrow("they are 3");
  await expect(chunksOf({ ...request, given: [10 ** 6] })).rejects.toThrow("1000000 is no token");
  await expect(chunksOf({ ...request, given: [1], logprobs: {} })).rejects.toThrow(
    "Cannot use given",
  );
});
