/**
 * Which running sequence gives its pages back where another one cannot go on.
 *
 * @module
 */
import type { Sequence } from "./sequence.ts";

/** The one with the shortest answer so far, of several the one with the longest prompt. */
export function leastToLose(running: Iterable<Sequence>): Sequence | undefined {
  let least: Sequence | undefined;
  for (const one of running) if (losesLess(one, least)) least = one;
  return least;
}

function losesLess(one: Sequence, other: Sequence | undefined): boolean {
  if (other === undefined) return true;
  const shorter = other.completionLength - one.completionLength;
  return shorter > 0 || (shorter === 0 && one.promptLength > other.promptLength);
}
