/**
 * When it is better for a sequence to wait than to compute what another one is about to.
 *
 * @module
 */
import type { Sequence } from "./sequence.ts";
import type { SequencePages } from "./sequence_pages.ts";

/**
 * Tokens that a prompt must share with one being computed, beyond those that are, to wait for it.
 * Equal prompts, as several samples of one have, wait for any.
 */
const WORTH_WAITING = 32;

/** Whether a running sequence is about to compute a prefix that this one could then take. */
export function isAboutToBeComputed(
  sequence: Sequence,
  running: Iterable<Sequence>,
  pages: SequencePages,
): boolean {
  if (!pages.shares) return false;
  const { tokens, partition, cacheableTokens } = sequence;
  const found = Math.max(pages.reusableTokens(sequence), sequence.saved?.end ?? 0);
  for (const other of running) {
    if (other.computed >= other.promptLength || other.partition !== partition) continue;
    const most = Math.min(cacheableTokens, other.promptLength);
    let common = 0;
    while (common < most && tokens[common] === other.tokens[common]) common += 1;
    const isEqual = common === most && tokens.length === other.promptLength;
    if (common - found >= (isEqual ? 1 : WORTH_WAITING)) return true;
  }
  return false;
}
