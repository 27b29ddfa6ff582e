/**
 * Which subtrees of a token trie a grammar takes whole.
 *
 * Where every character of a set leads on, and so does every character of the set from everywhere
 * that they lead to, all texts of these characters are allowed, up to a length or of any: so inside
 * of a string, whose every letter leads back to where it was, or on to where one letter less may
 * follow. Such a subtree needs no walk. What is found out is exact: other subtrees are walked.
 *
 * @module
 */
import type { Configuration, Configurations } from "../automaton/configurations.ts";
import {
  CharacterFan,
  FanSearch,
  isWithin,
  type SafeLeads,
  type Targets,
} from "./character_fan.ts";
import { findSafeLeads } from "./safe_leads.ts";
import type { SubtreeTexts } from "./subtree_texts.ts";

/** Configurations that a set of characters may lead to; where there are more, a walk is as quick. */
const MOST_PLACES = 24;

/** How far the characters of a set lead on, whichever they are. */
interface Run {
  /** Characters; infinite where nothing new is reached. */
  readonly length: number;
  /** Whether `length` is all that there is, and not all that was asked for. */
  readonly isWhole: boolean;
  /** Characters in front of the first place that is marked; infinite where there is none. */
  readonly untilMarked: number;
}

export interface EvenSubtreesOptions {
  readonly configurations: Configurations;
  readonly texts: SubtreeTexts;
  /** Places that a caller may want to know of, so that the subtrees they lie in are walked. */
  readonly isMarked: (configuration: Configuration) => boolean;
}

const NO_RUN: Run = { length: 0, isWhole: true, untilMarked: Number.POSITIVE_INFINITY };

/** Sets whose characters were found not to lead far enough, until no other one is tried. */
const MOST_FAILURES = 32;

/** Subtrees that were not taken, until no other one is tried; each that is makes up for some. */
const MOST_MISSES = 4096;
const MISSES_FOR_ONE = 16;

/** Subtrees that needed a look at several places, behind which characters that lead on forever are looked for. */
const SPREADS_BEFORE_SAFE: ReadonlySet<number> = new Set([16, 128, 1024]);

interface Place {
  readonly lead: number;
  readonly mayBeMarked: boolean;
}

/** Behind the first character of a subtree. */
interface Wanted {
  readonly set: number;
  readonly height: number;
  readonly mayBeMarked: boolean;
}

/** Below it, a byte is a character. */
const FIRST_LONG = 0x80;

/** Of one walk. */
export class EvenSubtrees {
  readonly #options: EvenSubtreesOptions;
  readonly #search: FanSearch;
  readonly #known = new Map<Configuration, Map<number, Targets>>();
  readonly #runs = new Map<Configuration, Map<number, Run>>();
  readonly #hasMarked = new Map<SafeLeads, boolean>();
  #spreads = 0;
  #failures = 0;
  #misses = 0;

  constructor(options: EvenSubtreesOptions) {
    this.#options = options;
    this.#search = new FanSearch(options.configurations);
  }

  /** Deepest stack of all configurations that were looked at. */
  get reach(): number {
    return this.#search.reach;
  }

  /**
   * Whether every token in the subtree of a node is allowed, the node itself included.
   *
   * @param here Where the node's parent was reached.
   * @param lead The node's byte.
   * @param mayBeMarked Whether marked places are of no interest.
   */
  takes(here: Configuration, node: number, { lead, mayBeMarked }: Place): boolean {
    const { sets } = this.#options.texts;
    if (sets[node]! < 0 || this.#misses >= MOST_MISSES) return false;
    const isEven = this.#isEven(here, node, { lead, mayBeMarked });
    this.#misses += isEven ? -MISSES_FOR_ONE : 1;
    return isEven;
  }

  #isEven(here: Configuration, node: number, { lead, mayBeMarked }: Place): boolean {
    const { sets, heights } = this.#options.texts;
    const set = sets[node]!;
    const height = heights[node]!;
    if (lead < FIRST_LONG) {
      const next = this.#search.step(here, lead);
      return next !== null && this.#leadsOn(next, { set, height, mayBeMarked });
    }
    const nexts = this.#targets(here, lead);
    if (nexts === null) return false;
    for (const next of nexts) {
      if (!this.#leadsOn(next, { set, height, mayBeMarked })) return false;
    }
    return true;
  }

  #leadsOn(next: Configuration, { set, height, mayBeMarked }: Wanted): boolean {
    if (!mayBeMarked && this.#options.isMarked(next)) return false;
    if (height === 0) return true;
    const leads = this.#options.texts.leads[set]!;
    const fan = CharacterFan.of(next);
    if (fan.safe !== undefined && this.#isSafe(fan.safe, leads, mayBeMarked)) return true;
    if (!fan.takes(leads, this.#search)) return false;
    if (isWithin(leads, fan.back)) return true;
    const isEven = this.#follow(next, leads, { height, mayBeMarked });
    if (isEven !== undefined) return isEven;
    this.#spreads += 1;
    if (fan.safe === undefined && SPREADS_BEFORE_SAFE.has(this.#spreads)) {
      findSafeLeads(next, this.#search);
      if (fan.safe && this.#isSafe(fan.safe, leads, mayBeMarked)) return true;
    }
    const { length, untilMarked } = this.#run(next, set, height);
    return length >= height && (mayBeMarked || untilMarked > height);
  }

  #isSafe(safe: SafeLeads, leads: Uint32Array, mayBeMarked: boolean): boolean {
    if (!isWithin(leads, safe.leads)) return false;
    if (safe.reach > this.#search.reach) this.#search.reach = safe.reach;
    if (mayBeMarked) return true;
    let hasMarked = this.#hasMarked.get(safe);
    if (hasMarked === undefined) {
      hasMarked = safe.places.some((place) => this.#options.isMarked(place));
      this.#hasMarked.set(safe, hasMarked);
    }
    return !hasMarked;
  }

  /**
   * Follows characters that all lead to one place each time: those of a string that is counted.
   *
   * @returns Undefined where they lead to several.
   */
  #follow(
    start: Configuration,
    leads: Uint32Array,
    { height, mayBeMarked }: Omit<Wanted, "set">,
  ): boolean | undefined {
    let here = start;
    for (let length = 0; length < height; length++) {
      const fan = CharacterFan.of(here);
      if (!fan.takes(leads, this.#search)) return false;
      const next = fan.onlyTarget(leads);
      if (next === undefined) return undefined;
      if (next === here) return true;
      if (!mayBeMarked && this.#options.isMarked(next)) return false;
      here = next;
    }
    return true;
  }

  /** Where a character of several bytes leads. */
  #targets(here: Configuration, lead: number): Targets {
    let known = this.#known.get(here);
    if (known === undefined) {
      known = new Map();
      this.#known.set(here, known);
    }
    let targets = known.get(lead);
    if (targets === undefined) {
      targets = this.#search.targets(here, lead);
      known.set(lead, targets);
    }
    return targets;
  }

  /** How far the characters of a set lead, as far as the length asked for. */
  #run(start: Configuration, set: number, length: number): Run {
    let runs = this.#runs.get(start);
    if (runs === undefined) {
      runs = new Map();
      this.#runs.set(start, runs);
    }
    let run = runs.get(set);
    if (run === undefined || (!run.isWhole && run.length < length)) {
      if (this.#failures === MOST_FAILURES) return NO_RUN;
      run = this.#spread(start, this.#options.texts.leads[set]!, length);
      runs.set(set, run);
      if (run.length < length) this.#failures += 1;
    }
    return run;
  }

  /** Looks at places in the order of their distance, which is what a text that fails is long at least. */
  #spread(start: Configuration, leads: Uint32Array, most: number): Run {
    const seen = new Set([start]);
    let untilMarked = Number.POSITIVE_INFINITY;
    let fresh: readonly Configuration[] = [start];
    for (let length = 0; length < most; length++) {
      const reached: Configuration[] = [];
      for (const here of fresh) {
        const fan = CharacterFan.of(here);
        if (!fan.takes(leads, this.#search)) return { length, isWhole: true, untilMarked };
        for (const part of fan.parts) {
          if (!meet(leads, part.leads)) continue;
          for (const next of part.targets) {
            if (seen.has(next)) continue;
            if (seen.size === MOST_PLACES) return { length, isWhole: true, untilMarked };
            seen.add(next);
            reached.push(next);
            if (this.#options.isMarked(next)) untilMarked = Math.min(untilMarked, length + 1);
          }
        }
      }
      if (reached.length === 0)
        return { length: Number.POSITIVE_INFINITY, isWhole: true, untilMarked };
      fresh = reached;
    }
    return { length: most, isWhole: false, untilMarked };
  }
}

function meet(a: Uint32Array, b: Uint32Array): boolean {
  for (let word = 0; word < a.length; word++) {
    if ((a[word]! & b[word]!) !== 0) return true;
  }
  return false;
}
