import { expect, test } from "vitest";
import type { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import type { TokenLogprobs } from "../../src/logprobs.ts";
import { openEngine } from "../support/engines/engine.ts";

const PROMPT = Array.from({ length: 21 }, (_, i) => 3 + ((i * 37) % 2000));
const NEXT = [5, 9, 700, 41, 1200, 8];
/** Nothing rounds small differences away. */
const PRECISE = { cacheDtype: "f32", quantizeActivations: false } as const;
const SAMPLING = { temperature: 0, ignoreEos: true };

interface Answer {
  readonly tokens: readonly number[];
  readonly logprobs: readonly TokenLogprobs[];
  readonly cachedTokens: number;
}

async function answer(
  engine: Engine,
  tokens: readonly number[],
  maxNewTokens: number,
): Promise<Answer> {
  const generated: number[] = [];
  const logprobs: TokenLogprobs[] = [];
  let cachedTokens = 0;
  const sampling = { ...SAMPLING, maxNewTokens };
  for await (const chunk of engine.generate({ tokens, sampling, logprobs: { topCount: 3 } })) {
    generated.push(...chunk.tokens);
    logprobs.push(...(chunk.logprobs ?? []));
    cachedTokens = chunk.cachedTokens;
  }
  return { tokens: generated, logprobs, cachedTokens };
}

/** A second turn whose prompt holds the first turn's answer: with that in the cache, and without. */
async function secondTurns(options: Partial<EngineOptions>): Promise<[Answer, Answer]> {
  const engine = await openEngine({ ...PRECISE, pageSize: 2, ...options });
  const first = await answer(engine, PROMPT, 24);
  const prompt = [...PROMPT, ...first.tokens, ...NEXT];
  const reused = await answer(engine, prompt, 8);
  await engine.close();
  const fresh = await openEngine({ ...PRECISE, pageSize: 2, prefixCache: false, ...options });
  const computed = await answer(fresh, prompt, 8);
  await fresh.close();
  return [reused, computed];
}

test("an answer reused as part of a prompt changes no bit under deterministic inference", async () => {
  const [reused, computed] = await secondTurns({ deterministicInference: true });
  expect(reused.cachedTokens).toBeGreaterThan(PROMPT.length);
  expect(computed.cachedTokens).toBe(0);
  expect(reused.tokens).toEqual(computed.tokens);
  expect(reused.logprobs).toEqual(computed.logprobs);
});

test("without it the two forms of latent attention differ in bits, not in what they say", async () => {
  const [reused, computed] = await secondTurns({ deterministicInference: false });
  expect(reused.tokens).toEqual(computed.tokens);
  expect(reused.logprobs).not.toEqual(computed.logprobs);
  reused.logprobs.forEach(({ logprob }, i) => {
    expect(logprob).toBeCloseTo(computed.logprobs[i]!.logprob!, 2);
  });
});
