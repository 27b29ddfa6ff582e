/**
 * Characters any text of which leads on from a state, however long it is.
 *
 * In a character class of a pattern, say, each letter leads to a state of its own, as a range may
 * follow; but every letter leads on from all of them. What is found is exact: from each state of the
 * set, each character of the set leads to states of the set.
 *
 * @module
 */
import type { CharacterSearch } from "./character_search.ts";
import { NO_TEXT } from "./text_runs.ts";
import { bytesBehind } from "./utf8_bytes.ts";
import { DEAD, type WalkStates } from "./walk_states.ts";

export interface SafeLeads {
  /** By the first byte of a character: 1 where it is none of them. */
  readonly others: Uint8Array;
  readonly places: readonly number[];
}

/** States of a set. */
const MOST_PLACES = 256;
/** Where there are more, a character behind which each other one leads to a place of its own is left out. */
const FEW_PLACES = 24;
const MANY_BEHIND = 8;
/** Characters that are followed, from whichever states, to find one. */
const MOST_LOOKS = 40_000;
/** Threads that are followed to find one, and their share of those that may still be. */
const MOST_WORK = 8000;
const SHARE_OF_WORK = 1 / 16;
/** What opens something that it may be in without end is left out. */
const MOST_DEEPER = 1;
const OPENED = 3;
/** How often characters are left out and the set is begun anew. */
const MOST_TRIES = 12;
/** Share of the characters that fail at a state from which on it is the way there that is left out. */
const MOST_FAILING = 0.25;
/** Fewer are not worth it. */
const LEAST_LEADS = 16;

const LEADS: readonly number[] = Array.from({ length: 256 }, (_, byte) => byte).filter(
  (byte) => bytesBehind(byte) >= 0,
);

/** What was found, and characters that were followed to find it. */
export interface SafeSearch {
  /** Null where the set is small or takes too long to find. */
  readonly leads: SafeLeads | null;
  readonly looks: number;
}

/** Finds the set of a state. */
export function findSafeLeads(
  start: number,
  states: WalkStates,
  search: CharacterSearch,
): SafeSearch {
  const spread = new Spread(start, states, search);
  for (let left = MOST_TRIES; left > 0 && spread.leads.length >= LEAST_LEADS; left--) {
    const places = spread.places();
    if (places === undefined) continue;
    const others = new Uint8Array(256).fill(1);
    for (const lead of spread.leads) others[lead] = 0;
    for (let byte = 0; byte < NO_TEXT; byte++) if (bytesBehind(byte) < 0) others[byte] = 0;
    return { leads: { others, places }, looks: spread.looks };
  }
  return { leads: null, looks: spread.looks };
}

interface Way {
  readonly lead: number;
  readonly from: number;
}

const NO_WAY: Way = { lead: -1, from: DEAD };

class Spread {
  leads: readonly number[] = LEADS;
  readonly #start: number;
  readonly #states: WalkStates;
  readonly #search: CharacterSearch;
  readonly #leastWork: number;
  readonly #mostDepth: number;
  looks = 0;
  /** Whether many places are looked at, as there is no such character. */
  #isWide = false;

  constructor(start: number, states: WalkStates, search: CharacterSearch) {
    this.#start = start;
    this.#states = states;
    this.#search = search;
    this.#leastWork = states.workLeft - Math.min(MOST_WORK, states.workLeft * SHARE_OF_WORK);
    this.#mostDepth = this.#depth(start) + MOST_DEEPER;
  }

  /**
   * @returns All states that the characters lead to; undefined where one leads nowhere or they are too
   * many: then some characters were left out.
   */
  places(): readonly number[] | undefined {
    const places = [this.#start];
    /** The character that led to each state first, and where it came from. */
    const ways = new Map<number, Way>([[this.#start, NO_WAY]]);
    /** By character, places that the next one leads to. */
    const behind = new Uint16Array(256);
    for (const place of places) {
      const { lead: way, from } = ways.get(place)!;
      if (way >= 0 && this.#depth(place) > this.#mostDepth) {
        const before = ways.get(from)!.lead;
        return this.#leaveOut([before >= 0 && this.#opens(before) ? before : way]);
      }
      const failing: number[] = [];
      for (const lead of this.leads) {
        const isTaken = this.#look(place, lead, (next) => {
          if (ways.has(next)) return;
          ways.set(next, { lead, from: place });
          places.push(next);
          if (way >= 0) behind[way]! += 1;
        });
        if (!isTaken) failing.push(lead);
      }
      this.looks += this.leads.length;
      const isTooMuch = this.looks > MOST_LOOKS || this.#states.workLeft < this.#leastWork;
      if (isTooMuch || places.length > MOST_PLACES) return this.#leaveOut(this.leads);
      if (places.length > FEW_PLACES && !this.#isWide) {
        const widest = behind.reduce((best, count, at) => (count > behind[best]! ? at : best), 0);
        if (behind[widest]! >= MANY_BEHIND) return this.#leaveOut([widest]);
        this.#isWide = true;
      }
      if (failing.length === 0) continue;
      const isWay = way >= 0 && failing.length > MOST_FAILING * this.leads.length;
      return this.#leaveOut(isWay ? [way] : failing);
    }
    return places;
  }

  /** Whether each of a character in a row is deeper inside than the one before. */
  #opens(lead: number): boolean {
    let place = this.#start;
    const depths: number[] = [];
    for (let i = 0; lead < 0x80 && i < OPENED && place !== DEAD; i++) {
      place = this.#states.step(place, lead);
      if (place !== DEAD) depths.push(this.#depth(place));
    }
    return depths.length === OPENED && depths.at(-1)! > depths.at(-2)!;
  }

  /** @returns Whether all characters with a first byte lead on. */
  #look(place: number, lead: number, see: (next: number) => void): boolean {
    if (lead < 0x80) {
      const next = this.#states.step(place, lead);
      if (next !== DEAD) see(next);
      return next !== DEAD;
    }
    const targets = this.#search.targets(place, lead);
    for (const next of targets ?? []) see(next);
    return targets !== null;
  }

  #leaveOut(leads: readonly number[]): undefined {
    this.leads = this.leads.filter((lead) => !leads.includes(lead));
  }

  #depth(state: number): number {
    const { threads } = this.#states.at(state);
    return threads.reduce((most, { frame }) => Math.max(most, frame.depth), 0);
  }
}
