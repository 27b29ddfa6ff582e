/**
 * Where each character leads from a configuration, for all characters at once.
 *
 * @module
 */
import type { Configuration, Configurations } from "../automaton/configurations.ts";
import { TEXT_LEADS } from "./text_runs.ts";
import { BYTE_SET_WORDS, bytesBehind, secondBytes } from "./utf8_bytes.ts";

/** Configurations that the characters with one first byte may lead to. */
const MOST_TARGETS = 4;

/** Characters that lead to the same places; they are told apart by their first bytes. */
export interface FanPart {
  /** Set of first bytes: bit `b % 32` of word `b / 32`. */
  readonly leads: Uint32Array;
  readonly targets: readonly Configuration[];
}

/** Characters any text of which leads on (`safe_leads.ts`). */
export interface SafeLeads {
  /** First bytes of the characters: bit `b % 32` of word `b / 32`. */
  readonly leads: Uint32Array;
  readonly places: readonly Configuration[];
  /** Deepest stack of all configurations that were looked at. */
  readonly reach: number;
}

/** Sets of first bytes of characters. */
export class CharacterFan {
  readonly parts: FanPart[] = [];
  /** Those of all characters that were looked at, and lead on to a few places. */
  readonly leads = new Uint32Array(BYTE_SET_WORDS);
  /** Those of them that lead back to where they began. */
  readonly back = new Uint32Array(BYTE_SET_WORDS);
  /** Characters that lead on forever, once they were looked for. */
  safe: SafeLeads | undefined;
  readonly #known = new Uint32Array(BYTE_SET_WORDS);
  readonly #here: Configuration;
  /** Deepest stack of all configurations that were looked at, by whichever search. */
  #reach = 0;
  readonly #targets: (Targets | undefined)[] = [];
  #text: Configuration | null | undefined;

  private constructor(here: Configuration) {
    this.#here = here;
  }

  static of(here: Configuration): CharacterFan {
    if (here.fan instanceof CharacterFan) return here.fan;
    const fan = new CharacterFan(here);
    here.fan = fan;
    return fan;
  }

  /** Whether all characters of a set lead on, and to few places each; looks at those that are new. */
  takes(leads: Uint32Array, search: FanSearch): boolean {
    for (let word = 0; word < BYTE_SET_WORDS; word++) {
      const known = this.#known[word]!;
      if ((leads[word]! & known & ~this.leads[word]!) !== 0) return false;
      for (let left = leads[word]! & ~known; left !== 0; left &= left - 1) {
        const bit = 31 - Math.clz32(left & -left);
        if (!this.#look(32 * word + bit, search)) return false;
      }
    }
    // What other searches have looked at is what this one relies on.
    if (this.#reach > search.reach) search.reach = this.#reach;
    return true;
  }

  /** The one place that all characters of plain text lead to; null where there is none. */
  text(search: FanSearch): Configuration | null {
    if (this.#text === undefined) this.#text = this.#findText(search);
    if (this.#reach > search.reach) search.reach = this.#reach;
    return this.#text;
  }

  #findText(search: FanSearch): Configuration | null {
    let only: Configuration | undefined;
    for (const lead of TEXT_LEADS) {
      const target = this.target(lead, search);
      if (target === null || (only !== undefined && target !== only)) return null;
      only = target;
    }
    return only!;
  }

  /** The one place that all characters with a first byte lead to; null where there is none. */
  target(lead: number, search: FanSearch): Configuration | null {
    const targets = this.targets(lead, search);
    return targets?.length === 1 ? targets[0]! : null;
  }

  /** Where the characters with a first byte lead. */
  targets(lead: number, search: FanSearch): Targets {
    const targets = this.#targetsOf(lead, search);
    if (this.#reach > search.reach) search.reach = this.#reach;
    return targets;
  }

  #targetsOf(lead: number, search: FanSearch): Targets {
    let targets = this.#targets[lead];
    if (targets !== undefined) return targets;
    const { reach } = search;
    search.reach = 0;
    targets = search.targets(this.#here, lead);
    this.#targets[lead] = targets;
    this.#reach = Math.max(this.#reach, search.reach);
    search.reach = Math.max(reach, search.reach);
    return targets;
  }

  /** The one place that all characters of a set lead to. */
  onlyTarget(leads: Uint32Array): Configuration | undefined {
    for (const { leads: all, targets } of this.parts) {
      if (targets.length === 1 && isWithin(leads, all)) return targets[0];
    }
    return undefined;
  }

  #look(lead: number, search: FanSearch): boolean {
    const [word, bit] = [lead >>> 5, 1 << (lead & 31)];
    const targets = this.#targetsOf(lead, search);
    this.#known[word]! |= bit;
    if (targets === null) return false;
    this.leads[word]! |= bit;
    if (targets.length === 1 && targets[0] === this.#here) this.back[word]! |= bit;
    partOf(this.parts, targets).leads[word]! |= bit;
    return true;
  }
}

/** Where the characters with a first byte lead; null where some lead nowhere, or to too many places. */
export type Targets = readonly Configuration[] | null;

/** Follows characters. */
export class FanSearch {
  /** Deepest stack of all configurations that were looked at. */
  reach = 0;
  readonly #configurations: Configurations;
  /** Where characters lead whose first byte leads to a place, by the bytes that may come second. */
  readonly #behind = new Map<Configuration, Map<number, Targets>>();

  constructor(configurations: Configurations) {
    this.#configurations = configurations;
  }

  /** Threads that may still be followed in this operation. */
  get workLeft(): number {
    return this.#configurations.workLeft;
  }

  /** Goes on by one byte. */
  step(here: Configuration, byte: number): Configuration | null {
    return this.#step(here, this.#configurations.automaton.classOf[byte]!);
  }

  targets(here: Configuration, lead: number): Targets {
    const first = this.step(here, lead);
    const lacking = bytesBehind(lead);
    if (first === null) return null;
    if (lacking === 0) return [first];
    const { from, to } = secondBytes(lead);
    const key = from * 256 + to;
    let known = this.#behind.get(first);
    if (known === undefined) {
      known = new Map();
      this.#behind.set(first, known);
    }
    let targets = known.get(key);
    if (targets === undefined) {
      const found = new Set<Configuration>();
      targets = this.#collect(first, { from, to, lacking, found }) ? [...found] : null;
      known.set(key, targets);
    }
    return targets;
  }

  /** @returns Whether all characters lead on, and to few places. */
  #collect(here: Configuration, { from, to, lacking, found }: Rest): boolean {
    // A text that ends within a character is none that a walk over characters sees.
    if (here.accepting) return false;
    const { classOf } = this.#configurations.automaton;
    const inside = new Set<Configuration>();
    for (let byteClass = classOf[from]!; byteClass <= classOf[to]!; byteClass++) {
      const next = this.#step(here, byteClass);
      if (next === null) return false;
      (lacking > 1 ? inside : found).add(next);
      if (found.size > MOST_TARGETS) return false;
    }
    for (const next of inside) {
      if (!this.#collect(next, { from: 0x80, to: 0xbf, lacking: lacking - 1, found })) return false;
    }
    return true;
  }

  #step(here: Configuration, byteClass: number): Configuration | null {
    const next = here.next(byteClass) ?? this.#configurations.step(here, byteClass);
    if (next !== null && next.reach > this.reach) this.reach = next.reach;
    return next;
  }
}

/** What a character lacks, and the places that whole ones lead to. */
interface Rest {
  readonly from: number;
  readonly to: number;
  readonly lacking: number;
  readonly found: Set<Configuration>;
}

function partOf(parts: FanPart[], targets: readonly Configuration[]): FanPart {
  const known = parts.find(
    (part) =>
      part.targets.length === targets.length && part.targets.every((one, i) => one === targets[i]),
  );
  if (known !== undefined) return known;
  const part = { leads: new Uint32Array(BYTE_SET_WORDS), targets };
  parts.push(part);
  return part;
}

export function isWithin(some: Uint32Array, all: Uint32Array): boolean {
  for (let word = 0; word < BYTE_SET_WORDS; word++) {
    if ((some[word]! & ~all[word]!) !== 0) return false;
  }
  return true;
}
