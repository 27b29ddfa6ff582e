/**
 * Where most characters lead from a state of a walk, and which ones lead elsewhere.
 *
 * @module
 */
import type { CharacterSearch } from "./character_search.ts";
import { NO_TEXT } from "./text_runs.ts";
import type { WalkStates } from "./walk_states.ts";

export interface UsualWay {
  readonly next: number;
  /** By the first byte of a character: 1 where some characters with it do not lead to `next`. */
  readonly others: Uint8Array;
}

/** First bytes of printable characters in ASCII. */
const PRINTABLE = { first: 0x20, last: 0x7e };
/** Fewer of them than these are not most. */
const LEAST_USUAL = 20;
/** First bytes of longer characters that lead to several places, until no other one is looked at. */
const MOST_SEVERAL = 6;
const FIRST_LONG = 0xc2;
const LAST_LONG = 0xf4;

/** Finds the usual way of a state; null where there is none. */
export function usualWay(
  here: number,
  states: WalkStates,
  search: CharacterSearch,
): UsualWay | null {
  const next = mostFrequent(here, states);
  if (next === undefined) return null;
  const others = new Uint8Array(256);
  others[NO_TEXT] = 1;
  for (let lead = 0; lead < 0x80; lead++) {
    if (states.step(here, lead) !== next) others[lead] = 1;
  }
  let left = MOST_SEVERAL;
  for (let lead = FIRST_LONG; lead <= LAST_LONG; lead++) {
    const targets = left === 0 ? null : search.targets(here, lead);
    if (targets !== null && targets.length === 1 && targets[0] === next) continue;
    others[lead] = 1;
    if (left > 0) left -= 1;
  }
  return { next, others };
}

function mostFrequent(here: number, states: WalkStates): number | undefined {
  const counts = new Map<number, number>();
  let [most, found]: [number, number | undefined] = [LEAST_USUAL - 1, undefined];
  for (let lead = PRINTABLE.first; lead <= PRINTABLE.last; ) {
    const next = states.step(here, lead);
    const from = lead;
    while (lead <= PRINTABLE.last && states.step(here, lead) === next) lead += 1;
    if (next < 0) continue;
    const count = (counts.get(next) ?? 0) + lead - from;
    counts.set(next, count);
    if (count > most) [most, found] = [count, next];
  }
  return found;
}
