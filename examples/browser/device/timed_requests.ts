/**
 * Runs requests of known lengths and takes their times.
 *
 * @module
 */
import type { GenerationEngine, GenerationRequest } from "wisp-llm";
import type { Timed } from "./device_report.ts";

type Generating = Pick<GenerationEngine, "flushCache" | "generate" | "model">;

export interface TimedRequests {
  readonly engine: Generating;
  readonly signal: AbortSignal;
  /** Another one for every call, so that no prompt is the beginning of another. */
  readonly nextSeed: () => number;
}

/** Tokens of prompts whose answers are timed. */
export const SHORT_PROMPT = 16;

/** From the request to its first token: all of the prompt, none of it cached. */
export async function timePrefill(requests: TimedRequests, tokens: number): Promise<Timed> {
  const { engine } = requests;
  await engine.flushCache();
  const request = fixed(requests, { promptTokens: tokens, newTokens: 1 });
  const start = performance.now();
  for await (const { cachedTokens, finish } of engine.generate(request)) {
    const seconds = (performance.now() - start) / 1000;
    if (finish === null) continue;
    if (cachedTokens > 0)
      throw new Error(`Cannot time a prefill: ${cachedTokens} tokens are cached`);
    return { tokens, seconds };
  }
  throw new Error("Cannot time a prefill: the answer has no end");
}

/** From the moment when every sequence has its first token to the last token of all. */
export async function timeDecode(
  requests: TimedRequests,
  { batch, tokens }: { readonly batch: number; readonly tokens: number },
): Promise<Timed> {
  const { engine } = requests;
  await engine.flushCache();
  let begun = 0;
  let counted = 0;
  let before = 0;
  let start = 0;
  const follow = async (request: GenerationRequest) => {
    let own = 0;
    for await (const chunk of engine.generate(request)) {
      counted += chunk.tokens.length;
      if (own === 0 && chunk.tokens.length > 0) begun += 1;
      own += chunk.tokens.length;
      if (begun === batch && start === 0) {
        start = performance.now();
        before = counted;
      }
    }
    if (own !== tokens) throw new Error(`Cannot time a decode: ${own} tokens came, not ${tokens}`);
  };
  const sizes = { promptTokens: SHORT_PROMPT, newTokens: tokens };
  const all = Array.from({ length: batch }, () => fixed(requests, sizes));
  await Promise.all(all.map(follow));
  return { tokens: counted - before, seconds: (performance.now() - start) / 1000 };
}

/** A request of as many tokens as it says, whatever the model would say. */
export function fixed(
  { engine, signal, nextSeed }: TimedRequests,
  { promptTokens, newTokens }: { readonly promptTokens: number; readonly newTokens: number },
): GenerationRequest & { readonly signal: AbortSignal } {
  const { vocabularySize } = engine.model;
  const random = randomBelow(nextSeed());
  const tokens = Array.from({ length: promptTokens }, () => random(vocabularySize));
  const sampling = { temperature: 0, ignoreEos: true, maxNewTokens: newTokens };
  return { tokens, sampling, signal };
}

/** Whole numbers, the same for the same seed. (Generator: Mulberry32, T. Ettinger.) */
function randomBelow(seed: number): (limit: number) => number {
  let state = seed >>> 0;
  return (limit) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % limit;
  };
}
