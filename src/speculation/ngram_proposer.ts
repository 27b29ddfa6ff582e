/**
 * Drafts without a model: what followed when the newest tokens stood in the request's own prompt or
 * answer before.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import { NgramIndex } from "./ngram_index.ts";

/** Tokens that have to agree before their continuation is a draft: the fewest, and the most that count. */
export interface MatchWindow {
  readonly min: number;
  readonly max: number;
}

/** Longer matches tell hardly more, and a token's cost grows with them. */
export const MAX_MATCH_WINDOW = 64;

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

  /** Memory that it holds. */
  get bytes(): number {
    return this.#index.bytes;
  }

  /** How many of the newest tokens the drafts rest on; 0 where there are no drafts. */
  get matchLength(): number {
    const { matchLength } = this.#index;
    return matchLength < this.#matches.min ? 0 : matchLength;
  }

  /** @param tokens Ids in the order of the sequence, each told once. */
  append(tokens: Iterable<number>): void {
    for (const token of tokens) this.#index.append(token);
  }

  /**
   * What followed the longest match, of several the newest. Where the match is so near that its
   * continuation reaches the end of the text, the drafts go on with themselves, as a text that
   * repeats itself does.
   *
   * A match of two or three tokens is often chance, so there are no more drafts than it has tokens; a
   * match of the whole window gives all. In texts that copy, the match doubles in the first steps.
   *
   * @returns Token ids, at most `count`.
   */
  propose(count: number): number[] {
    const { matchLength } = this;
    const { matchEnd, length } = this.#index;
    const most = matchLength === this.#matches.max ? count : Math.min(count, matchLength);
    const period = length - 1 - matchEnd;
    return Array.from({ length: Math.max(most, 0) }, (_, i) =>
      this.#index.tokenAt(matchEnd + 1 + (i % period)),
    );
  }
}

/** @throws {InvalidRequestError} naming the bound that is wrong. */
export function requireWindow({ min, max }: MatchWindow): void {
  const field = "speculativeNgramMaxMatchWindowSize";
  if (!Number.isInteger(max) || max < 1 || max > MAX_MATCH_WINDOW) {
    throw new InvalidRequestError(
      `Cannot use ${field} ${max}: it must be a whole number from 1 to ${MAX_MATCH_WINDOW}`,
      field,
    );
  }
  if (Number.isInteger(min) && min >= 1 && min <= max) return;
  const least = "speculativeNgramMinMatchWindowSize";
  throw new InvalidRequestError(
    `Cannot use ${least} ${min}: it must be a whole number from 1 to ${field} ${max}`,
    least,
  );
}
