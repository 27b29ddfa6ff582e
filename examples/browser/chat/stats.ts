/**
 * What an answer took: tokens, and the time to the first of them and between the others.
 *
 * @module
 */
import type { AnswerStats } from "../panel/panel_source.ts";
import type { RoundProgress } from "./answer_source.ts";
import type { TurnStats } from "./conversation.ts";

export type { AnswerStats };

/** A page's clock is too coarse for speeds of less. */
const LEAST_SECONDS = 0.005;

export class AnswerClock {
  #requestId = "";
  #sentAt = performance.now();
  #firstTokenAt: number | undefined;
  /** Until the first token of the whole answer. */
  #firstTokenSeconds = 0;
  #promptTokens = 0;
  #cachedTokens: number | undefined;
  #roundTokens = 0;
  /** Of rounds that are over. */
  #earlierTokens = 0;
  /** Tokens behind the first of their round, and the time they took. */
  #steps = 0;
  #stepSeconds = 0;
  #lastAt = 0;

  startRound(): void {
    this.#sentAt = performance.now();
    this.#earlierTokens += this.#roundTokens;
    this.#roundTokens = 0;
    this.#firstTokenAt = undefined;
  }

  take({ requestId, promptTokens, cachedTokens, completionTokens }: RoundProgress): void {
    const now = performance.now();
    this.#requestId = requestId;
    this.#promptTokens = promptTokens;
    this.#cachedTokens = cachedTokens;
    if (completionTokens === 0) return;
    if (this.#firstTokenAt === undefined) {
      this.#firstTokenAt = now;
      if (this.#firstTokenSeconds === 0) this.#firstTokenSeconds = (now - this.#sentAt) / 1000;
    } else {
      this.#steps += completionTokens - this.#roundTokens;
      this.#stepSeconds += (now - this.#lastAt) / 1000;
    }
    this.#roundTokens = completionTokens;
    this.#lastAt = now;
  }

  get stats(): TurnStats {
    return {
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      completionTokens: this.#earlierTokens + this.#roundTokens,
      firstTokenSeconds: this.#firstTokenSeconds,
      tokensPerSecond:
        this.#stepSeconds < LEAST_SECONDS ? undefined : this.#steps / this.#stepSeconds,
    };
  }

  /** Of the round that runs, for the side panel. */
  progress(isOver: boolean): AnswerStats {
    return {
      requestId: this.#requestId,
      promptTokens: this.#promptTokens,
      cachedTokens: this.#cachedTokens,
      completionTokens: this.#roundTokens,
      sentAt: this.#sentAt,
      firstTokenAt: this.#firstTokenAt,
      isOver,
    };
  }
}
