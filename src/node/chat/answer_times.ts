/**
 * What an answer took, as a line for a person.
 *
 * @module
 */
import type { ChatUsage } from "../../client/chat_exchange.ts";

/** Tokens that come in one piece have no speed. */
const LEAST_SECONDS = 0.005;

export class AnswerTimes {
  readonly #sentAt = performance.now();
  #firstAt: number | undefined;
  #firstTokens = 0;
  #usage: ChatUsage | undefined;

  /** @param isText Whether the piece has text or a call, which shows that tokens come. */
  take(usage: ChatUsage | undefined, isText: boolean): void {
    this.#usage = usage ?? this.#usage;
    if (this.#firstAt !== undefined || !(isText || (usage?.completionTokens ?? 0) > 0)) return;
    this.#firstAt = performance.now();
    this.#firstTokens = Math.max(usage?.completionTokens ?? 1, 1);
  }

  /** @returns Nothing where no token has come. */
  line(): string | undefined {
    if (this.#firstAt === undefined) return undefined;
    const seconds = (performance.now() - this.#firstAt) / 1000;
    const parts = [`first token after ${((this.#firstAt - this.#sentAt) / 1000).toFixed(2)} s`];
    if (this.#usage !== undefined) {
      const { completionTokens, promptTokens, cachedTokens } = this.#usage;
      const later = completionTokens - this.#firstTokens;
      if (later > 0 && seconds >= LEAST_SECONDS)
        parts.unshift(`${(later / seconds).toFixed(1)} tokens/s`);
      parts.unshift(`${completionTokens} tokens`);
      const cached = cachedTokens === undefined ? "" : `${cachedTokens} of `;
      const ending = cachedTokens === undefined ? "" : " cached";
      parts.push(`${cached}${promptTokens} prompt tokens${ending}`);
    }
    return parts.join(" · ");
  }
}
