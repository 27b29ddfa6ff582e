/**
 * Where tokens need not be followed byte by byte: places from which most characters lead on alike.
 *
 * Inside of a string nearly every character leads back to where it was, or on to the one place that
 * every other one leads to; in words of a pattern each leads to one of a few places, from all of which
 * each leads on. What is found out is exact: only characters that are no others are taken so.
 *
 * @module
 */
import type { Configuration } from "../automaton/configurations.ts";
import { GrammarError } from "../grammar_error.ts";
import { CharacterSearch } from "./character_search.ts";
import { findSafeLeads, type SafeLeads } from "./safe_leads.ts";
import { NO_TEXT, TEXT_LEADS } from "./text_runs.ts";
import { type UsualWay, usualWay } from "./usual_way.ts";
import { bytesBehind } from "./utf8_bytes.ts";
import { DEAD, type WalkStates } from "./walk_states.ts";

export interface Region {
  /**
   * States that its characters lead to one after the other, the last of which may stand for all that
   * follow; undefined where they lead to several.
   */
  readonly states: readonly number[] | undefined;
  /** Characters that may be taken so; infinite where there is no last one. */
  readonly length: number;
  /** By the first byte of a character: 1 where it is not of the region. */
  readonly others: Uint8Array;
  /** Whether all plain text is of it. */
  readonly isText: boolean;
  /** Whether it is sure that no control character may come. */
  readonly isEnclosed?: boolean;
  /** By the first byte of a character: 1 where it is sure that none with it leads on. */
  readonly dead?: Uint8Array;
}

/** What is known of plain text behind a state. */
export interface PlainLength {
  /** Characters, any of which lead on without a marked state. */
  readonly length: number;
  readonly isEnclosed: boolean;
}

/** Nodes below a state, all in all, from which on it is worth finding out where most characters lead. */
export const WORTH_A_LOOK = 512;
/** The same of finding characters that lead on forever, which takes longer. */
const WORTH_A_SEARCH = 16_384;
/** Searches that find nothing, until there is no other one. */
const MOST_SEARCHES = 3;
/** Characters that a long search follows, and long searches in vain of all walks of a grammar. */
const LONG_LOOKS = 4000;
const MOST_LONG_FAILURES = 4;

/** First bytes of plain text outside of a region that is good enough. */
const FEW = 8;
/** Characters of a region that ends somewhere, and states that are looked for. */
const LEAST_LENGTH = 4;
const MOST_LENGTH = 32;
/** The same where some of plain text is not of the region. */
const MOST_BROKEN = 12;

/** The states one after the other, as far as they were looked for. */
class Chain implements Region {
  readonly states: number[];
  readonly others = new Uint8Array(256);
  isText = true;
  /** Whether there is no state behind the last one, or that one leads to itself. */
  isWhole = false;
  isEndless = false;

  constructor(first: number) {
    this.states = [first];
  }

  get length(): number {
    return this.isEndless ? Number.POSITIVE_INFINITY : this.states.length - 1;
  }
}

/** What is known of a state. */
interface Known {
  /** What any plain text leads on from; null where that is not known. */
  readonly plain: Region | null;
  /** Nodes that were found below it. */
  nodes: number;
  /** Null where there is none. */
  chain: Chain | null | undefined;
  safe: Region | null | undefined;
}

/** A region of characters that lead from each of its places to another one, whichever it begins with. */
interface SafeRegion extends Region {
  readonly places: readonly Configuration[];
  /** Deepest stack on the way. */
  readonly reach: number;
}

/** What was found out of a place, in whichever walk that was; null where nothing was found. */
const safeOf = new WeakMap<Configuration, SafeRegion | null>();

/** By automaton, how many long searches found nothing. */
const longFailures = new WeakMap<object, number>();

/** By first byte, what is no plain text. */
export const NOT_PLAIN = new Uint8Array(256);
for (let byte = 0; byte < 0x80; byte++) NOT_PLAIN[byte] = TEXT_LEADS.includes(byte) ? 0 : 1;
NOT_PLAIN[NO_TEXT] = 1;

export interface TextRegionsOptions {
  /** States that have to be come by byte by byte. */
  readonly isMarked: (state: number) => boolean;
  /** Finds out of a state how far any plain text leads on. */
  readonly plainFrom?: ((state: number) => PlainLength | undefined) | undefined;
}

/** Of one walk. */
export class TextRegions {
  readonly #states: WalkStates;
  readonly #isMarked: (state: number) => boolean;
  readonly #plainFrom: TextRegionsOptions["plainFrom"];
  readonly #known: (Known | undefined)[] = [];
  readonly #search: CharacterSearch;
  readonly #usual: (UsualWay | null | undefined)[] = [];
  #searches = MOST_SEARCHES;
  /** Threads that looking may follow in this walk: those that are left are the walk's own. */
  #work: number;

  constructor(states: WalkStates, { isMarked, plainFrom }: TextRegionsOptions) {
    this.#states = states;
    this.#plainFrom = plainFrom;
    this.#search = new CharacterSearch(states);
    this.#isMarked = isMarked;
    this.#work = states.workLeft / 8;
    if ((longFailures.get(states.automaton) ?? 0) >= MOST_LONG_FAILURES) this.#searches = 0;
  }

  /**
   * The region that a state is in, if one is known or worth looking for.
   *
   * @param height Characters that it has to reach for.
   * @param nodes Nodes below the state.
   */
  of(state: number, height: number, nodes: number): Region | undefined {
    const known = this.#known[state] ?? this.#look(state);
    const { plain } = known;
    known.nodes += nodes;
    if (plain !== null && plain.length >= Math.min(height, LEAST_LENGTH)) {
      const isBetterBelow =
        plain.length < height && nodes >= WORTH_A_SEARCH && this.#textBehind(state) >= plain.length;
      return isBetterBelow ? undefined : plain;
    }
    if (known.nodes < WORTH_A_LOOK) return undefined;
    const chain = this.#chain(state, height, known);
    if (known.nodes < WORTH_A_SEARCH || (chain && left(chain) <= FEW)) return chain;
    if (known.safe === undefined) {
      known.safe = this.#textBehind(state) >= height ? null : this.#findSafe(state);
    }
    const { safe } = known;
    return safe && (chain === undefined || 2 * left(safe) < left(chain)) ? safe : chain;
  }

  #look(state: number): Known {
    const isMarked = this.#isMarked(state) ? null : undefined;
    const known = { plain: this.#findPlain(state), nodes: 0, chain: isMarked, safe: isMarked };
    this.#known[state] = known;
    return known;
  }

  /**
   * Characters of any plain text that lead on from where most characters lead to, if that is elsewhere:
   * then a few lead to other places from here alone, as behind a key's first letter, and a region from
   * here on would be broken by them wherever they stand.
   */
  #textBehind(state: number): number {
    const next = this.#usualWay(state)?.next;
    if (next === undefined || next === state) return 0;
    const { plain } = this.#known[next] ?? this.#look(next);
    return plain?.length ?? 0;
  }

  #findPlain(state: number): Region | null {
    const plain = this.#plainFrom?.(state);
    if (plain === undefined || plain.length <= 0) return null;
    return { states: undefined, others: NOT_PLAIN, isText: true, ...plain };
  }

  #findSafe(state: number): Region | null {
    const start = this.#states.at(state);
    let safe = safeOf.get(start);
    if (safe === undefined) {
      if (this.#searches <= 0) return null;
      safe = this.#searchSafe(state);
      safeOf.set(start, safe);
      for (const place of safe?.places ?? []) safeOf.set(place, safe);
      if (safe === null) this.#searches -= 1;
    }
    if (safe === null || safe.places.some((place) => this.#isMarked(this.#states.of(place)))) {
      return null;
    }
    this.#states.reachTo(safe.reach);
    return safe;
  }

  #searchSafe(state: number): SafeRegion | null {
    const search = this.#orNone(() => findSafeLeads(state, this.#states, this.#search));
    const found = search?.leads ?? null;
    if (found === null && (search === null || search.looks > LONG_LOOKS)) this.#failedLong();
    const dead = found && this.#orNone(() => this.#deadLeads(found));
    if (found === null || dead === null) return null;
    const { others } = found;
    return {
      states: undefined,
      length: Number.POSITIVE_INFINITY,
      others,
      isText: TEXT_LEADS.every((lead) => others[lead] === 0),
      dead,
      places: found.places.map((place) => this.#states.at(place)),
      reach: this.#states.reach,
    };
  }

  /** No other search of this walk, and no more than a few of the grammar, are to be as long in vain. */
  #failedLong(): void {
    const { automaton } = this.#states;
    const count = (longFailures.get(automaton) ?? 0) + 1;
    longFailures.set(automaton, count);
    this.#searches = 0;
  }

  #deadLeads({ others, places }: SafeLeads): Uint8Array {
    return others.map((isOther, lead) => {
      const isFirst = lead < 0x80 || bytesBehind(lead) > 0;
      const isDead = (place: number) => this.#states.step(place, lead) === DEAD;
      return isOther === 1 && isFirst && places.every(isDead) ? 1 : 0;
    });
  }

  #chain(first: number, height: number, known: Known): Chain | undefined {
    if (known.chain === null) return undefined;
    known.chain ??= new Chain(first);
    const { chain } = known;
    const { states } = chain;
    const isLong = () => states.length > (chain.isText ? MOST_LENGTH : MOST_BROKEN);
    while (!chain.isWhole && states.length <= height && !isLong()) {
      const here = states.at(-1)!;
      const usual = this.#usualWay(here);
      const next = usual?.next;
      if (next === undefined || this.#isMarked(next) || !this.#goesOn(chain, usual!.others)) {
        chain.isWhole = true;
      } else if (next === here) {
        chain.isWhole = true;
        chain.isEndless = true;
      } else {
        states.push(next);
      }
    }
    if (chain.length >= Math.min(height, LEAST_LENGTH)) return chain;
    known.chain = null;
    return undefined;
  }

  #usualWay(state: number): UsualWay | null {
    let usual = this.#usual[state];
    if (usual === undefined) {
      usual = this.#orNone(() => usualWay(state, this.#states, this.#search));
      this.#usual[state] = usual;
    }
    return usual;
  }

  /** Adds the others of a further state, unless those of the first one are more. */
  #goesOn(chain: Chain, others: Uint8Array): boolean {
    const known = chain.others;
    const isFirst = chain.states.length === 1;
    let hasNew = false;
    for (let lead = 0; lead < 256; lead++) {
      if (others[lead] === known[lead]) continue;
      if (others[lead] === 0) return false;
      hasNew = true;
    }
    if (!hasNew) return true;
    // Where a later state has more others, the texts of the first ones would be broken up by them.
    if (!isFirst) return false;
    known.set(others);
    for (let i = 0; chain.isText && i < TEXT_LEADS.length; i++) {
      if (others[TEXT_LEADS[i]!] === 1) chain.isText = false;
    }
    return true;
  }

  /** What lies beyond a limit may be where no token leads, so it is no error of the walk. */
  #orNone<T>(find: () => T | null): T | null {
    if (this.#work <= 0) return null;
    const before = this.#states.workLeft;
    try {
      return find();
    } catch (error) {
      if (error instanceof GrammarError) return null;
      throw error;
    } finally {
      this.#work -= before - this.#states.workLeft;
    }
  }
}

/** First bytes of plain text that are not of a region. */
function left({ others }: Region): number {
  return TEXT_LEADS.reduce((sum, lead) => sum + others[lead]!, 0);
}
