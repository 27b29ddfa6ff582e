/**
 * How many tokens running sequences are expected to generate still, as a share of what they may.
 *
 * Few requests use their whole limit. The share starts high, falls while all goes well, and rises
 * to what is really needed when sequences had to be retracted.
 *
 * @module
 */
import type { Sequence } from "./sequence.ts";

const FIRST_SHARE = 0.7;
/** What is left of it after `DECAY_STEPS` steps without a retraction. */
const LAST_SHARE = 0.14;
const DECAY_STEPS = 600;
/** Tokens expected of one sequence at most. */
const MOST_EXPECTED = 4096;
/** Steps that are to go well after a retraction. */
const STEPS_AHEAD = 20;

export class NewTokenEstimate {
  readonly #first: number;
  readonly #last: number;
  #share: number;

  constructor(conservativeness: number) {
    this.#first = Math.min(FIRST_SHARE * conservativeness, 1);
    this.#last = this.#first * LAST_SHARE;
    this.#share = this.#first;
  }

  /** Tokens that a sequence may want beyond those it has: pages for all of them are counted on. */
  ofNew({ maxNewTokens, completionLength }: Sequence): number {
    return Math.min(maxNewTokens - completionLength, MOST_EXPECTED) * this.#share;
  }

  /** Tokens that a running sequence will still take room for. */
  ofRunning(sequence: Sequence): number {
    return sequence.length - sequence.computed + this.ofNew(sequence);
  }

  /** A step went well. */
  step(): void {
    const fall = (this.#first - this.#last) / DECAY_STEPS;
    this.#share = Math.max(this.#share - fall, this.#last);
  }

  /** @param running Those that are left. */
  retracted(running: Iterable<Sequence>): void {
    let generated = 0;
    let most = 0;
    for (const { completionLength, maxNewTokens } of running) {
      generated += completionLength + STEPS_AHEAD;
      most += maxNewTokens;
    }
    this.#share = Math.min(Math.max(generated / Math.max(most, 1), this.#share), 1);
  }
}
