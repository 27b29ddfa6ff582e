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

/** First and last code points of plain text: no control character, quote or backslash. */
export const PLAIN_TEXT: readonly (readonly [first: number, last: number])[] = [
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x7e],
  [0x80, 0xd7ff],
  [0xe000, 0x10ffff],
];

/** Of a node: its language counts its characters. */
export const IS_COUNTED = 1;
/** Its language has control characters, though perhaps in other places. */
export const TAKES_CONTROLS = 2;

/** Edges that are looked at for each of an automaton, until nothing is found out. */
const LOOKS_PER_EDGE = 8;
/** Of each of them at first. */
const EDGE_EFFORT = 0.05;
/** Behind all of plain text. */
const ALL = 0x110000;

const known = new WeakMap<CodePointAutomaton, Uint8Array>();

/**
 * By state: 1 where every plain text leads on from it.
 *
 * Of an automaton whose characters are counted these are the states right behind the beginning of a
 * character, and the texts those that the count allows; what begins from the same state with other
 * needs counts together with them.
 */
export function plainStates(automaton: CodePointAutomaton): Uint8Array {
  let found = known.get(automaton);
  if (found === undefined) {
    found = new Search(automaton).run();
    known.set(automaton, found);
  }
  return found;
}

/** Nodes of an automaton over bytes from which plain text leads on. */
export class PlainNodes {
  readonly #nodes: number[] = [];
  readonly #exits: number[] = [];

  /**
   * @param nodes Those of the states of a regular language.
   * @param ends Where it leads to, and whether its characters are counted.
   */
  add(
    automaton: CodePointAutomaton,
    nodes: readonly number[],
    { to, isCounted }: { readonly to: number; readonly isCounted?: true | undefined },
  ): void {
    const plain = plainStates(automaton);
    if (!plain.includes(1)) return;
    const takesControls = automaton.states.some(({ edges }) =>
      edges.some(({ first }) => first < PLAIN_TEXT[0]![0]),
    );
    const exit = 4 * to + (isCounted ? IS_COUNTED : 0) + (takesControls ? TAKES_CONTROLS : 0);
    plain.forEach((isPlain, state) => {
      if (isPlain === 0) return;
      this.#nodes.push(nodes[state]!);
      this.#exits.push(exit);
    });
  }

  /** @returns What `ByteAutomaton.plain` says, of so many nodes. */
  of(count: number): Int32Array {
    const plain = new Int32Array(count).fill(-1);
    this.#nodes.forEach((node, i) => {
      plain[node] = this.#exits[i]!;
    });
    return plain;
  }
}

class Search {
  readonly #states: CodePointAutomaton["states"];
  /** Ways on from each state, in the order of their first characters. */
  readonly #ways: readonly (readonly CodePointEdge[])[];
  readonly #leads: Uint8Array;
  #looks: number;

  constructor({ states }: CodePointAutomaton) {
    this.#states = states;
    this.#ways = states.map(({ edges }) => {
      return inOrder(begins(edges) ? edges.flatMap(({ target }) => states[target]!.edges) : edges);
    });
    this.#leads = new Uint8Array(states.length).fill(1);
    const edges = this.#ways.reduce((sum, { length }) => sum + length, 0);
    spendEffort(EDGE_EFFORT * edges);
    this.#looks = LOOKS_PER_EDGE * edges;
  }

  run(): Uint8Array {
    const failing: number[] = [];
    for (let state = 0; state < this.#ways.length; state++) this.#look(state, failing);
    if (failing.length < this.#leads.length) this.#spread(failing);
    return this.#looks < 0 ? this.#leads.fill(0) : this.#begun();
  }

  /** What leads to a state that fails may fail too. */
  #spread(failing: number[]): void {
    const before: number[][] = this.#ways.map(() => []);
    this.#ways.forEach((ways, state) => {
      if (this.#leads[state] === 0) return;
      for (const { target } of ways) before[target]!.push(state);
    });
    for (let state = failing.pop(); state !== undefined; state = failing.pop()) {
      for (const other of before[state]!) this.#look(other, failing);
      if (this.#looks < 0) return;
    }
  }

  #look(state: number, failing: number[]): void {
    if (this.#leads[state] === 0) return;
    const ways = this.#ways[state]!;
    this.#looks -= ways.length;
    let next = PLAIN_TEXT[0]![0];
    for (const { first, last, target } of ways) {
      if (first > next || next === ALL) break;
      if (last >= next && this.#leads[target] === 1) next = plainFrom(last + 1);
    }
    if (next === ALL) return;
    this.#leads[state] = 0;
    failing.push(state);
  }

  /** In place of states at which a character begins without a text, those behind its beginning. */
  #begun(): Uint8Array {
    const states = this.#states;
    const found = this.#leads.slice();
    const beginning = [...states.keys()].filter((state) => begins(states[state]!.edges));
    for (const state of beginning) for (const { target } of states[state]!.edges) found[target] = 1;
    for (const state of beginning) {
      for (const { target } of states[state]!.edges) found[target]! &= this.#leads[state]!;
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
