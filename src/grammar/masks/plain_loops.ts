/**
 * Parts of an automaton from which every character of plain text leads on within them: the inside of a
 * string, of a pattern's `.*`, rounds of a repeat.
 *
 * @module
 */
import type { Configurations } from "../automaton/configurations.ts";
import type { PackedEdges } from "../automaton/node_views.ts";
import { ENDLESS, IS_COUNTED } from "../automaton/plain_text.ts";
import { LINE_ENDS, TEXT_LEADS } from "./text_runs.ts";
import { bytesBehind, type SecondBytes, secondBytes } from "./utf8_bytes.ts";

export interface PlainLoop {
  /** Characters that lead on within it; infinite where it is a loop. */
  readonly length: number;
  /** Stack entries, with what they need to get out, above the one that it stands in. */
  readonly needs: number;
}

/** Where a character begins. */
export interface LoopStart {
  readonly node: number;
  /** Node to go on from behind the rule that it is in, if the character ends that. */
  readonly back: number | undefined;
  /** The repeat in whose round all of it is, and another round is sure to begin behind that. */
  readonly repeat: number | undefined;
}

/** Nodes of a loop, at which characters begin, and characters that are counted. */
const MOST_NODES = 16;
const MOST_CHARACTERS = 256;
/** Edges and bytes that are looked at for one, and for all of a grammar. */
const MOST_LOOKS = 5000;
const MOST_LOOKS_IN_ALL = 50_000;
/** Any byte of a character but the first two. */
const THIRD_BYTES: SecondBytes = { from: 0x80, to: 0xbf };

export class PlainLoops {
  readonly #configurations: Configurations;
  readonly #known = new Map<string, PlainLoop | undefined>();
  /** By first node of a rule, whether any character is all of a text of it. */
  readonly #characters = new Map<number, boolean>();
  #looks = MOST_LOOKS_IN_ALL;

  constructor(configurations: Configurations) {
    this.#configurations = configurations;
  }

  /** What all characters lead into, by the edges of the node itself. */
  from(start: LoopStart): PlainLoop | undefined {
    const key = `${start.node} ${start.back} ${start.repeat}`;
    let found = this.#known.get(key);
    if (found === undefined && !this.#known.has(key)) {
      found = this.#find(start);
      this.#known.set(key, found);
    }
    return found;
  }

  #find({ node, back, repeat }: LoopStart): PlainLoop | undefined {
    const { depthNeeds } = this.#configurations.automaton;
    if (back !== undefined) {
      if (!this.#isCharacter(node)) return undefined;
      const { length, needs } = this.#behind(back, repeat);
      return { length: length + 1, needs: Math.max(needs, 1 + depthNeeds[node]!) };
    }
    if (repeat !== undefined && this.#isCharacter(node) && this.#hasCharacters(repeat)) {
      return { length: Number.POSITIVE_INFINITY, needs: depthNeeds[node]! };
    }
    return this.#search(node, repeat);
  }

  /** Follows characters that are rules of their own. */
  #behind(start: number, repeat: number | undefined): PlainLoop {
    const { depthNeeds } = this.#configurations.automaton;
    const reached = new Set<number>();
    let needs = 0;
    for (let node = start; ; ) {
      needs = Math.max(needs, depthNeeds[node]!);
      if (reached.has(node)) return { length: Number.POSITIVE_INFINITY, needs };
      reached.add(node);
      const { calls } = this.#configurations.view(node);
      const call = calls.find((one) => this.#isCharacter(one.start));
      if (call === undefined || reached.size === MOST_CHARACTERS) break;
      needs = Math.max(needs, depthNeeds[call.start]! + (call.isLast ? 0 : 1));
      if (!call.isLast) node = call.back;
      else if (repeat === undefined || !this.#hasCharacters(repeat)) {
        return { length: reached.size, needs };
      } else return { length: Number.POSITIVE_INFINITY, needs };
    }
    return { length: reached.size - 1, needs };
  }

  #search(node: number, repeat: number | undefined): PlainLoop | undefined {
    if (this.#looks < 0) return undefined;
    const { repeats } = this.#configurations.automaton;
    const body = repeat === undefined ? undefined : repeats[repeat]!.body;
    const search = new LoopSearch(this.#configurations, (target) => {
      if (body === undefined || !this.#configurations.view(target).returns) return target;
      return body;
    });
    const found = search.from(node);
    this.#looks -= MOST_LOOKS - search.looks;
    if (found !== undefined) return found;
    // All that was come by is as good as sure to be in none either.
    for (const place of search.places) {
      this.#known.set(`${place} ${undefined} ${repeat}`, undefined);
    }
    return undefined;
  }

  /** Whether any character is a round. */
  #hasCharacters(repeat: number): boolean {
    const { body } = this.#configurations.automaton.repeats[repeat]!;
    const { calls } = this.#configurations.view(body);
    const isCharacter = ({ start, isLast }: (typeof calls)[number]) =>
      isLast && this.#isCharacter(start);
    return this.#isCharacter(body) || calls.some(isCharacter);
  }

  #isCharacter(start: number): boolean {
    let isCharacter = this.#characters.get(start);
    if (isCharacter === undefined) {
      const search = new LoopSearch(this.#configurations, (target) =>
        this.#configurations.view(target).returns ? undefined : NO_PLACE,
      );
      isCharacter = search.leadsOn(start);
      this.#characters.set(start, isCharacter);
    }
    return isCharacter;
  }
}

/** In place of a node that is none of a loop. */
const NO_PLACE = -1;

/** The place of the loop that a character leads to with a node, if it has to be one. */
type Landing = (node: number) => number | undefined;

/** A character of which some bytes were read. */
interface Begun {
  readonly lacking: number;
  /** Those bytes as one number. */
  readonly before: number;
}

class LoopSearch {
  readonly places = new Set<number>();
  looks = MOST_LOOKS;
  readonly #configurations: Configurations;
  readonly #land: Landing;
  /** By node within a character, bytes that it lacks, and those that may be next. */
  readonly #within = new Map<number, boolean>();
  #needs = 0;

  constructor(configurations: Configurations, land: Landing) {
    this.#configurations = configurations;
    this.#land = land;
  }

  from(start: number): PlainLoop | undefined {
    this.places.add(start);
    for (const place of this.places) {
      const isLarge = this.places.size > MOST_NODES || this.looks < 0;
      if (isLarge || !this.leadsOn(place)) return undefined;
    }
    return { length: Number.POSITIVE_INFINITY, needs: this.#needs };
  }

  /** Whether each character leads from a node to a place, which is one of the loop then. */
  leadsOn(place: number): boolean {
    if (!this.#isPassable(place)) return false;
    const { edges } = this.#configurations.view(place);
    return TEXT_LEADS.every((lead) => {
      return this.#takes(
        edges,
        { from: lead, to: lead },
        { lacking: bytesBehind(lead), before: 0 },
      );
    });
  }

  /** Whether each of some bytes leads on, with all that its character lacks. */
  #takes(edges: PackedEdges, { from, to }: SecondBytes, { lacking, before }: Begun): boolean {
    for (let byte = from; byte <= to; byte++) {
      const bytes = before * 256 + byte;
      if (LINE_ENDS.includes(bytes)) continue;
      if (!this.#takesByte(edges, byte, { lacking, before: bytes })) return false;
    }
    return true;
  }

  #takesByte(edges: PackedEdges, byte: number, begun: Begun): boolean {
    for (let i = 0; i < edges.length && edges[i]! >>> 8 <= byte; i += 2) {
      this.looks -= 1;
      if ((edges[i]! & 0xff) < byte || this.looks < 0) continue;
      const target = edges[i + 1]!;
      const leadsOn = begun.lacking === 0 ? this.#lands(target) : this.#isWithin(target, begun);
      if (leadsOn) return true;
    }
    return false;
  }

  #isWithin(node: number, { lacking, before }: Begun): boolean {
    const rest = before < 256 ? secondBytes(before) : THIRD_BYTES;
    const mayEnd = LINE_ENDS.some((end) => end >>> (8 * lacking) === before);
    const key = (((node * 4 + lacking) * 256 + rest.from) * 256 + rest.to) * 2 + (mayEnd ? 1 : 0);
    let isWithin = this.#within.get(key);
    if (isWithin === undefined) {
      const { edges } = this.#configurations.view(node);
      isWithin =
        this.#isPassable(node) && this.#takes(edges, rest, { lacking: lacking - 1, before });
      this.#within.set(key, isWithin);
    }
    return isWithin;
  }

  #lands(node: number): boolean {
    if (!this.#isPassable(node)) return false;
    const { lengths, exits } = this.#configurations.automaton.plain;
    if (lengths[node] === ENDLESS && (exits[node]! & IS_COUNTED) === 0) return true;
    const place = this.#land(node);
    if (place === NO_PLACE) return false;
    if (place !== undefined) this.places.add(place);
    return true;
  }

  /** Whether a text may come to its end from a node. */
  #isPassable(node: number): boolean {
    const needs = this.#configurations.automaton.depthNeeds[node]!;
    if (needs === Number.POSITIVE_INFINITY) return false;
    this.#needs = Math.max(this.#needs, needs);
    return true;
  }
}
