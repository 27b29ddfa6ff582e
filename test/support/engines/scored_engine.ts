/**
 * A scripted engine that tells log-probabilities, for tests of the server; its tokens are characters.
 *
 * @module
 */
import type { GenerationChunk, GenerationRequest } from "../../../src/generation.ts";
import type { TokenLogprobs } from "../../../src/logprobs.ts";
import { ScriptedEngine } from "./scripted_engine.ts";

/** Minus a hundredth of the id, so that every number says whose it is. */
const logprobOf = (token: number) => -token / 100;

export class ScoredEngine extends ScriptedEngine {
  override async *generate(
    request: GenerationRequest & { readonly signal?: AbortSignal },
  ): AsyncGenerator<GenerationChunk, void> {
    const { logprobs: asked } = request;
    let isFirst = true;
    for await (const chunk of super.generate(request)) {
      if (asked === undefined) {
        yield chunk;
        continue;
      }
      const { promptStart, topCount = 0, tokenIds = [], text = false } = asked;
      const name = (token: number) => (text ? { text: String.fromCharCode(token) } : {});
      const one = (token: number) => ({ token, logprob: logprobOf(token), ...name(token) });
      const entry = (token: number): TokenLogprobs => ({
        ...one(token),
        top: Array.from({ length: topCount }, (_, i) => one(token + i)),
        given: tokenIds.map(one),
      });
      const codes = Array.from(request.prompt ?? "", (c) => c.charCodeAt(0));
      const start = promptStart === -1 ? codes.length - 1 : (promptStart ?? codes.length);
      const promptLogprobs = codes
        .slice(start)
        .map((token, i) =>
          i > 0 ? entry(token) : { ...entry(token), logprob: null, top: null, given: null },
        );
      const first = isFirst && promptStart !== undefined;
      yield { ...chunk, logprobs: chunk.tokens.map(entry), ...(first && { promptLogprobs }) };
      isFirst = false;
    }
  }
}
