/**
 * How fast tokens come: over a whole answer, and lately.
 *
 * @module
 */
import type { AnswerStats } from "./panel_source.ts";

/** Milliseconds that a point of the line stands for. */
const INTERVAL = 250;
/** Points that are kept. */
const MOST = 120;

export class RateMeter {
  /** Tokens a second, the oldest first. */
  readonly #rates: number[] = [];
  #requestId: string | undefined;
  /** Completion tokens of the answer when the point began that is being filled, and that moment. */
  #tokens = 0;
  #since = 0;

  get rates(): readonly number[] {
    return this.#rates;
  }

  /** @param now Milliseconds of `performance.now()`. */
  add({ requestId, completionTokens, firstTokenAt, isOver }: AnswerStats, now: number): void {
    if (firstTokenAt === undefined) return;
    if (requestId !== this.#requestId) {
      this.#requestId = requestId;
      this.#tokens = completionTokens;
      this.#since = firstTokenAt;
      return;
    }
    const milliseconds = now - this.#since;
    const tokens = completionTokens - this.#tokens;
    const isDue = milliseconds >= INTERVAL || (isOver && milliseconds > 0);
    if (!isDue || tokens === 0) return;
    this.#rates.push((1000 * tokens) / milliseconds);
    if (this.#rates.length > MOST) this.#rates.shift();
    this.#tokens = completionTokens;
    this.#since = now;
  }
}

/** Tokens a second after the first one; undefined where there is only that. */
export function averageRate(
  { completionTokens, firstTokenAt }: AnswerStats,
  now: number,
): number | undefined {
  if (firstTokenAt === undefined || completionTokens < 2 || now <= firstTokenAt) return undefined;
  return (1000 * (completionTokens - 1)) / (now - firstTokenAt);
}
