/**
 * Drafts without a model: what followed when the newest tokens stood in the request's own prompt or
 * answer before.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import { NgramIndex } from "./ngram_index.ts";
import { MAX_MATCH_WINDOW } from "./option_values.ts";

/** Tokens that have to agree before their continuation is a draft: the fewest, and the most that count. */
export interface MatchWindow {
  readonly min: number;
  readonly max: number;
}

/**
 * One token that agrees is hardly a match: of the drafts behind it, one in five is right in texts that
 * copy nothing, which costs such texts more than texts that copy gain.
 */
export const DEFAULT_MATCH_WINDOW: MatchWindow = { min: 2, max: 12 };

/**
 * Proposes for one sequence. It is told the tokens of the prompt and those that are accepted, so
 * refused drafts leave nothing to take back.
 *
 * Memory: `NGRAM_BYTES_PER_TOKEN` a token of the sequence at most, and as much again as it grows. A
 * long prompt is best appended as its chunks are computed, as each token costs a short walk.
 */
export class NgramProposer {
  readonly #matches: MatchWindow;
  readonly #index: NgramIndex;
  #matched = 0;

  /** @throws {InvalidRequestError} where the window is none. */
  constructor(matches: MatchWindow = DEFAULT_MATCH_WINDOW) {
    requireWindow(matches);
    this.#matches = matches;
    this.#index = new NgramIndex(matches.max);
  }

  /** Tokens that it was told. */
  get length(): number {
    return this.#index.length;
  }

  /** Tokens of the match that it proposed from last. */
  get matched(): number {
    return this.#matched;
  }

  /** Memory that it holds. */
  get bytes(): number {
    return this.#index.bytes;
  }

  /** @param tokens Ids in the order of the sequence, each told once. */
  append(tokens: Iterable<number>): void {
    for (const token of tokens) this.#index.append(token);
  }

  /**
   * What followed the longest match, of several the newest. Where the match is so near that the
   * continuation reaches the end of the text, the drafts go on with themselves, as a text that repeats
   * itself does.
   *
   * A match of two or three tokens is often chance, so there are no more drafts than it has tokens; a
   * match of the whole window gives all. In texts that copy, the match doubles in the first steps.
   *
   * @returns Token ids, at most `count`.
   */
  propose(count: number): number[] {
    const index = this.#index;
    const { length, end } = index.match;
    this.#matched = length;
    const period = index.length - 1 - end;
    return Array.from({ length: this.#most(count, length) }, (_, i) =>
      index.tokenAt(end + 1 + (i % period)),
    );
  }

  /** Drafts that a match of so many tokens is good for. */
  #most(count: number, matched: number): number {
    const { min, max } = this.#matches;
    if (matched < min) return 0;
    return Math.max(matched === max ? count : Math.min(count, matched), 0);
  }
}

/** @throws {InvalidRequestError} naming the bound that is wrong. */
export function requireWindow({ min, max }: MatchWindow): void {
  const field = "speculation.ngramMaxMatchWindowSize";
  if (!Number.isInteger(max) || max < 1 || max > MAX_MATCH_WINDOW) {
    throw new InvalidRequestError(
      `Cannot use ${field} ${max}: it must be a whole number from 1 to ${MAX_MATCH_WINDOW}`,
      field,
    );
  }
  if (Number.isInteger(min) && min >= 1 && min <= max) return;
  const least = "speculation.ngramMinMatchWindowSize";
  throw new InvalidRequestError(
    `Cannot use ${least} ${min}: it must be a whole number from 1 to ${field} ${max}`,
    least,
  );
}
