/**
 * How far a request has come, and how long that took.
 *
 * @module
 */
import type { GenerationChunk } from "../../generation.ts";

/** All times are in seconds. */
export class RequestCourse {
  requestId: string | undefined;
  promptTokens = 0;
  cachedTokens = 0;
  completionTokens = 0;
  /** Of them those that took no step, once a constrained answer has ended. */
  forcedTokens: number | undefined;
  /** The replica that answers, where there are several. */
  dataParallelRank: number | undefined;
  /** From the request to its first token. */
  timeToFirstToken: number | undefined;
  readonly #startedAt = performance.now();
  #lastAt = this.#startedAt;

  /** Since the request came. */
  get seconds(): number {
    return (performance.now() - this.#startedAt) / 1000;
  }

  /** Completion tokens a second, behind the first one; `undefined` where there are none. */
  get throughput(): number | undefined {
    const first = this.timeToFirstToken;
    const decoding = (this.#lastAt - this.#startedAt) / 1000 - (first ?? 0);
    if (first === undefined || this.completionTokens < 2 || decoding <= 0) return undefined;
    return (this.completionTokens - 1) / decoding;
  }

  /**
   * Takes the next chunk.
   *
   * @returns For each of its tokens the time since the one before, or since the request came.
   */
  take({
    requestId,
    promptTokens,
    cachedTokens,
    completionTokens,
    forcedTokens,
    dataParallelRank,
    tokens,
  }: GenerationChunk): number {
    this.requestId = requestId;
    this.promptTokens = promptTokens;
    this.cachedTokens = cachedTokens;
    this.completionTokens = completionTokens;
    this.forcedTokens = forcedTokens;
    this.dataParallelRank = dataParallelRank;
    if (tokens.length === 0) return 0;
    const now = performance.now();
    const seconds = (now - this.#lastAt) / 1000;
    this.#lastAt = now;
    this.timeToFirstToken ??= seconds;
    return seconds / tokens.length;
  }
}
