/**
 * Plain text: what may stand inside of a JSON string as it is, and the states of regular languages
 * from which any of it leads on, however long it is.
 *
 * A key that is none of an object's named ones, say, may begin like any of these: from each of its
 * states every character leads to another one. What is found is exact, but not all there is.
 *
 * @module
 */
import { spendEffort } from "../effort.ts";
import { type CodePointAutomaton, type CodePointEdge, needBehind } from "../expression.ts";

/**
 * First and last code points of plain text: no control character, quote or backslash, and not the two
 * line ends of Unicode, which a pattern's `.` leaves out.
 */
export const PLAIN_TEXT: readonly (readonly [first: number, last: number])[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x7e],
  [0x80, 0x2027],
  [0x202a, 0xd7ff],
  [0xe000, 0x10ffff],
];

/** Of a node: its language counts its characters. */
export const IS_COUNTED = 1;
/** Its language has control characters, though perhaps in other places. */
export const TAKES_CONTROLS = 2;

/** There is no last one. */
export const ENDLESS = 255;
/** Fewer are not worth it. */
const LEAST_LENGTH = 4;
/** Edges that are looked at for each of an automaton, until nothing is found out. */
const LOOKS_PER_EDGE = 8;
/** Of each of them at first. */
const EDGE_EFFORT = 0.05;
/** Behind all of plain text. */
const ALL = 0x110000;

const known = new WeakMap<CodePointAutomaton, Uint8Array>();

/**
 * By state: characters of plain text, any of which lead on from it; `ENDLESS` where there is no last one.
 *
 * Of an automaton whose characters are counted they are those of the states right behind the beginning
 * of a character, and as many as the count allows; what begins from the same state with other needs
 * counts together with them.
 */
export function plainLengths(automaton: CodePointAutomaton): Uint8Array {
  let found = known.get(automaton);
  if (found === undefined) {
    found = new Search(automaton).run();
    known.set(automaton, found);
  }
  return found;
}

/** What an automaton over bytes knows of plain text. */
export interface PlainFacts {
  /** Of each node characters of plain text, any of which lead on; see `plainLengths`. */
  readonly lengths: Uint8Array;
  /** Where there are some: four times the node behind the regular language, and what is said above of it. */
  readonly exits: Uint32Array;
  /** Where its characters are counted: the most that any of those behind it needs behind itself. */
  readonly needs: Uint16Array;
}

/** Collects them. */
export class PlainNodes {
  readonly #nodes: number[] = [];
  readonly #lengths: number[] = [];
  readonly #exits: number[] = [];
  readonly #needs: number[] = [];

  /**
   * @param nodes Those of the states of a regular language.
   * @param ends Where it leads to, and whether its characters are counted.
   */
  add(
    automaton: CodePointAutomaton,
    nodes: readonly number[],
    { to, isCounted }: { readonly to: number; readonly isCounted?: true | undefined },
  ): void {
    const lengths = plainLengths(automaton);
    const takesControls = automaton.states.some(({ edges }) =>
      edges.some(({ first }) => first < PLAIN_TEXT[0]![0]),
    );
    const exit = 4 * to + (isCounted ? IS_COUNTED : 0) + (takesControls ? TAKES_CONTROLS : 0);
    const needs = isCounted ? needsBehind(automaton) : undefined;
    lengths.forEach((length, state) => {
      if (length < LEAST_LENGTH) return;
      this.#needs.push(needs?.[state] ?? 0);
      this.#nodes.push(nodes[state]!);
      this.#lengths.push(length);
      this.#exits.push(exit);
    });
  }

  /** @param count Of all nodes. */
  of(count: number): PlainFacts {
    const lengths = new Uint8Array(count);
    const exits = new Uint32Array(count);
    const needs = new Uint16Array(count);
    this.#nodes.forEach((node, i) => {
      lengths[node] = this.#lengths[i]!;
      exits[node] = this.#exits[i]!;
      needs[node] = this.#needs[i]!;
    });
    return { lengths, exits, needs };
  }
}

const knownNeeds = new WeakMap<CodePointAutomaton, Uint16Array>();

/** By state: the most characters that must follow any that begins there or further on. */
function needsBehind(automaton: CodePointAutomaton): Uint16Array {
  let found = knownNeeds.get(automaton);
  if (found === undefined) {
    found = findNeeds(automaton);
    knownNeeds.set(automaton, found);
  }
  return found;
}

function findNeeds({ states }: CodePointAutomaton): Uint16Array {
  const before: number[][] = states.map(() => []);
  const withNeed = new Map<number, number[]>();
  states.forEach(({ edges }, state) => {
    for (const edge of edges) {
      before[edge.target]!.push(state);
      const need = needBehind(edge);
      if (need === undefined) continue;
      const same = withNeed.get(need);
      if (same === undefined) withNeed.set(need, [state]);
      else same.push(state);
      // What begins beside it counts together with it.
      before[state]!.push(edge.target);
    }
  });
  const found = new Uint16Array(states.length);
  const isFound = new Uint8Array(states.length);
  for (const need of [...withNeed.keys()].sort((a, b) => b - a)) {
    const reached = withNeed.get(need)!.filter((state) => isFound[state] === 0);
    for (const state of reached) isFound[state] = 1;
    // A list yields what is added to it on the way.
    for (const state of reached) {
      found[state] = need;
      for (const other of before[state]!) {
        if (isFound[other] === 1) continue;
        isFound[other] = 1;
        reached.push(other);
      }
    }
  }
  return found;
}

class Search {
  readonly #states: CodePointAutomaton["states"];
  /** Ways on from each state, in the order of their first characters. */
  readonly #ways: readonly (readonly CodePointEdge[])[];
  readonly #lengths: Uint8Array;
  #looks: number;

  constructor({ states }: CodePointAutomaton) {
    this.#states = states;
    this.#ways = states.map(({ edges }) => {
      return inOrder(begins(edges) ? edges.flatMap(({ target }) => states[target]!.edges) : edges);
    });
    this.#lengths = new Uint8Array(states.length).fill(ENDLESS);
    const edges = this.#ways.reduce((sum, { length }) => sum + length, 0);
    spendEffort(EDGE_EFFORT * edges);
    this.#looks = LOOKS_PER_EDGE * edges;
  }

  run(): Uint8Array {
    let failing = this.#failing(this.#ways.keys());
    const before: number[][] = this.#ways.map(() => []);
    if (failing.length < this.#ways.length) {
      this.#ways.forEach((ways, state) => {
        for (const { target } of ways) before[target]!.push(state);
      });
    }
    // In each round those fail that all texts of one more character do not lead on from.
    for (let length = 0; failing.length > 0; length++) {
      const isOver = length === ENDLESS - 1;
      for (const state of failing) this.#lengths[state] = length;
      if (isOver)
        this.#lengths.forEach((found, state) => {
          if (found === ENDLESS) this.#lengths[state] = length;
        });
      failing = isOver ? [] : this.#failing(failing.flatMap((state) => before[state]!));
      if (this.#looks < 0) return this.#lengths.fill(0);
    }
    return this.#begun();
  }

  /** Those of some states that do not lead on by all characters, as far as is known. */
  #failing(states: Iterable<number>): number[] {
    const failing = new Set<number>();
    for (const state of states) {
      if (this.#lengths[state] === ENDLESS && !failing.has(state) && !this.#leadsOn(state)) {
        failing.add(state);
      }
    }
    return [...failing];
  }

  #leadsOn(state: number): boolean {
    const ways = this.#ways[state]!;
    this.#looks -= ways.length;
    let next = PLAIN_TEXT[0]![0];
    for (const { first, last, target } of ways) {
      if (first > next || next === ALL) break;
      if (last >= next && this.#lengths[target] === ENDLESS) next = plainFrom(last + 1);
    }
    return next === ALL;
  }

  /** In place of states at which a character begins without a text, those behind its beginning. */
  #begun(): Uint8Array {
    const states = this.#states;
    const found = this.#lengths.slice();
    const beginning = [...states.keys()].filter((state) => begins(states[state]!.edges));
    for (const state of beginning) {
      for (const { target } of states[state]!.edges) found[target] = ENDLESS;
    }
    for (const state of beginning) {
      for (const { target } of states[state]!.edges) {
        found[target] = Math.min(found[target]!, this.#lengths[state]!);
      }
      found[state] = 0;
    }
    return found;
  }
}

/** Whether a character that is counted begins with the edges of a state, none of which reads a text. */
function begins(edges: readonly CodePointEdge[]): boolean {
  return edges.length > 0 && needBehind(edges[0]!) !== undefined;
}

/** The first character of plain text from one on. */
function plainFrom(point: number): number {
  for (const [first, last] of PLAIN_TEXT) if (point <= last) return Math.max(point, first);
  return ALL;
}

function inOrder(edges: readonly CodePointEdge[]): readonly CodePointEdge[] {
  const isInOrder = edges.every(({ first }, i) => i === 0 || edges[i - 1]!.first <= first);
  return isInOrder ? edges : edges.toSorted((a, b) => a.first - b.first);
}
