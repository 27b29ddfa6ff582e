/**
 * Characters any text of which leads on from a place, however long it is.
 *
 * In a character class of a pattern, say, each letter leads to a place of its own, as a range may
 * follow; but every letter leads on from all of them. What is found is exact: from each place of the
 * set, each character of the set leads to places of the set.
 *
 * @module
 */
import type { Configuration } from "../automaton/configurations.ts";
import { CharacterFan, type FanSearch } from "./character_fan.ts";
import { BYTE_SET_WORDS, bytesBehind } from "./utf8_bytes.ts";

/** Places of a set. */
const MOST_PLACES = 256;
/** Threads followed to find one. */
const MOST_WORK = 4000;
/** What opens something that it may be in without end is left out. */
const MOST_DEEPER = 1;
/** How often characters are left out and the set is begun anew. */
const MOST_TRIES = 12;
/** Share of the characters that fail at a place from which on it is the way there that is left out. */
const MOST_FAILING = 0.25;

const LEADS: readonly number[] = Array.from({ length: 256 }, (_, byte) => byte).filter(
  (byte) => bytesBehind(byte) >= 0,
);

/** Finds the set of a place and tells all of its places; nothing where that takes too long. */
export function findSafeLeads(start: Configuration, search: FanSearch): void {
  const least = search.workLeft - MOST_WORK;
  const leads = new Set(LEADS.filter((lead) => CharacterFan.of(start).targets(lead, search)));
  for (let left = MOST_TRIES; left > 0 && leads.size > 0; left--) {
    const places = spread(start, leads, { search, least });
    if (places === undefined) continue;
    const words = new Uint32Array(BYTE_SET_WORDS);
    for (const lead of leads) words[lead >>> 5]! |= 1 << (lead & 31);
    const safe = { leads: words, places, reach: search.reach };
    for (const place of places) CharacterFan.of(place).safe ??= safe;
    return;
  }
}

/**
 * @returns All places that the characters lead to; undefined where one leads nowhere or they are too
 * many: then some characters were left out.
 */
function spread(
  start: Configuration,
  leads: Set<number>,
  { search, least }: { readonly search: FanSearch; readonly least: number },
): readonly Configuration[] | undefined {
  /** The character that led to each place first. */
  const ways = new Map<Configuration, number | undefined>([[start, undefined]]);
  const most = depthOf(start) + MOST_DEEPER;
  for (const [place, way] of ways) {
    if (search.workLeft < least) {
      leads.clear();
      return undefined;
    }
    if (way !== undefined && depthOf(place) > most) {
      leads.delete(way);
      return undefined;
    }
    const fan = CharacterFan.of(place);
    const failing = [...leads].filter((lead) => fan.targets(lead, search) === null);
    if (failing.length > 0) {
      const isWay = way !== undefined && failing.length > MOST_FAILING * leads.size;
      for (const lead of isWay ? [way] : failing) leads.delete(lead);
      return undefined;
    }
    for (const lead of leads) {
      for (const next of fan.targets(lead, search)!) {
        if (ways.has(next)) continue;
        if (ways.size === MOST_PLACES) {
          leads.clear();
          return undefined;
        }
        ways.set(next, lead);
      }
    }
  }
  return [...ways.keys()];
}

function depthOf({ threads }: Configuration): number {
  return threads.reduce((most, { frame }) => Math.max(most, frame.depth), 0);
}
