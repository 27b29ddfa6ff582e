/**
 * What prompts of one step may still ask about their rows: the logits of how many are kept, and how
 * many log-probabilities are gathered from them.
 *
 * @module
 */
import type { Sequence } from "./sequence.ts";

/** Log-probabilities of prompt rows that one step gathers; those of one row always fit. */
export const MOST_SCORED_RESULTS = 2 ** 18;

export class ScoringRoom {
  #rows: number;
  #results = MOST_SCORED_RESULTS;

  /** @param rows Whose logits are kept. */
  constructor(rows = 1) {
    this.#rows = rows;
  }

  /** How many of a sequence's next `rows` rows can be computed; what they ask for is taken. */
  take({ computed, logprobs }: Sequence, rows: number): number {
    if (logprobs === undefined) return rows;
    const { resultsPerRow } = logprobs;
    const fits = Math.floor(this.#results / resultsPerRow);
    const least = this.#results === MOST_SCORED_RESULTS ? 1 : 0;
    const room = Math.min(this.#rows, Math.max(fits, least));
    const [most, wanted] = logprobs.fit(computed, rows, room);
    this.#rows -= wanted;
    this.#results -= wanted * resultsPerRow;
    return most;
  }
}
