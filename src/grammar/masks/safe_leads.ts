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
/** Characters that are followed, from whichever states, to find one. */
const MOST_LOOKS = 12_000;
/** Threads that are followed to find one, and their share of those that may still be. */
const MOST_WORK = 4000;
const SHARE_OF_WORK = 1 / 16;
/** What opens something that it may be in without end is left out. */
const MOST_DEEPER = 1;
/** How often characters are left out and the set is begun anew. */
const MOST_TRIES = 12;
/** Share of the characters that fail at a state from which on it is the way there that is left out. */
const MOST_FAILING = 0.25;
/** Fewer are not worth it. */
const LEAST_LEADS = 16;

const LEADS: readonly number[] = Array.from({ length: 256 }, (_, byte) => byte).filter(
  (byte) => bytesBehind(byte) >= 0,
);

/** Finds the set of a state; null where it is small or takes too long to find. */
export function findSafeLeads(
  start: number,
  states: WalkStates,
  search: CharacterSearch,
): SafeLeads | null {
  const spread = new Spread(start, states, search);
  for (let left = MOST_TRIES; left > 0 && spread.leads.length >= LEAST_LEADS; left--) {
    const places = spread.places();
    if (places === undefined) continue;
    const others = new Uint8Array(256).fill(1);
    for (const lead of spread.leads) others[lead] = 0;
    for (let byte = 0; byte < NO_TEXT; byte++) if (bytesBehind(byte) < 0) others[byte] = 0;
    return { others, places };
  }
  return null;
}

class Spread {
  leads: readonly number[] = LEADS;
  readonly #start: number;
  readonly #states: WalkStates;
  readonly #search: CharacterSearch;
  readonly #leastWork: number;
  readonly #mostDepth: number;
  #looks = MOST_LOOKS;

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
    /** The character that led to each state first. */
    const ways = new Map<number, number>([[this.#start, -1]]);
    for (const place of places) {
      const way = ways.get(place)!;
      if (way >= 0 && this.#depth(place) > this.#mostDepth) return this.#leaveOut([way]);
      const failing: number[] = [];
      for (const lead of this.leads) {
        const isTaken = this.#look(place, lead, (next) => {
          if (ways.has(next)) return;
          ways.set(next, lead);
          places.push(next);
        });
        if (!isTaken) failing.push(lead);
      }
      this.#looks -= this.leads.length;
      const isTooMuch = this.#looks < 0 || this.#states.workLeft < this.#leastWork;
      if (isTooMuch || places.length > MOST_PLACES) return this.#leaveOut(this.leads);
      if (failing.length === 0) continue;
      const isWay = way >= 0 && failing.length > MOST_FAILING * this.leads.length;
      return this.#leaveOut(isWay ? [way] : failing);
    }
    return places;
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
