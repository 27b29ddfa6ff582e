/**
 * A page in which another sequence has computed some of the tokens that a sequence begins with.
 *
 * @module
 */
import type { Sequence } from "./sequence.ts";

/** It holds tokens up to `end`, beyond those in shared pages. */
export interface PartialPage {
  readonly page: number;
  readonly end: number;
}

export interface PartialPageSearch {
  /** Where the cached prefix ends: the first token of a page. */
  readonly start: number;
  /** Where what is of use ends. */
  readonly most: number;
  readonly pageSize: number;
  /** The page before `start`. A sequence that has it there too has the same prefix. */
  readonly lastPage: number | undefined;
  /** Tokens of another sequence that may be taken. */
  readonly shareable: (other: Sequence) => number;
}

/** The page that holds most of what follows a sequence's first `start` tokens. */
export function findPartialPage(
  { tokens }: Pick<Sequence, "tokens">,
  others: Iterable<Sequence>,
  { start, most, pageSize, lastPage, shareable }: PartialPageSearch,
): PartialPage | undefined {
  const index = start / pageSize;
  let best: PartialPage | undefined;
  for (const other of others) {
    if (other.pageTable[index - 1] !== lastPage) continue;
    const limit = Math.min(most, shareable(other));
    let end = start;
    while (end < limit && tokens[end] === other.tokens[end]) end += 1;
    if (end > (best?.end ?? start)) best = { page: other.pageTable[index]!, end };
  }
  return best;
}
