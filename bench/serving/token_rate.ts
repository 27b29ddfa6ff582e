/**
 * Milliseconds a token of one greedy answer, in Node and in pages alike.
 *
 * @module
 */
import type { GenerationEngine } from "../../src/generation.ts";

export const RATE_OPTIONS = { contextLength: 512, maxRunningRequests: 1 } as const;

const TOKENS = 32;
const ROUNDS = 2;

export interface TokenRate {
  /** Between two tokens, the mean of the fastest round. */
  readonly milliseconds: number;
  readonly tokens: readonly number[];
}

/** Of each engine, which take turns; the first round, in which much is done once, does not count. */
export async function tokenRate(engines: readonly GenerationEngine[]): Promise<TokenRate[]> {
  const rates = engines.map(() => ({ milliseconds: Number.POSITIVE_INFINITY, tokens: [0] }));
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [i, engine] of engines.entries()) {
      const { milliseconds, tokens } = await answer(engine);
      const least = Math.min(rates[i]!.milliseconds, milliseconds);
      rates[i] = { milliseconds: round === 0 ? Number.POSITIVE_INFINITY : least, tokens };
    }
  }
  return rates;
}

async function answer(engine: GenerationEngine) {
  const tokens: number[] = [];
  let first = 0;
  let last = 0;
  const sampling = { temperature: 0, ignoreEos: true, maxNewTokens: TOKENS };
  for await (const chunk of engine.generate({ prompt: "The capital of Japan", sampling })) {
    if (chunk.tokens.length === 0) continue;
    last = performance.now();
    if (tokens.length === 0) first = last;
    tokens.push(...chunk.tokens);
  }
  return { milliseconds: (last - first) / (tokens.length - 1), tokens };
}
