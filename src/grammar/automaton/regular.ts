/**
 * What can be done with regular languages over code points: both of two, one without another,
 * neither, all texts of a finite one.
 *
 * The automata may have several ways to read a text; only `complement`, and with it `difference`,
 * makes one deterministic, which may need more states than the limit allows.
 *
 * Every function works without recursion and ends with a `GrammarError` where the result would have
 * more than `MAX_REGULAR_STATES` states or `MAX_REGULAR_EDGES` edges.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import type { CodePointAutomaton, CodePointEdge, CodePointState } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { codePoints, MAX_CODE_POINT } from "./code_points.ts";

export const MAX_REGULAR_STATES = 100_000;
export const MAX_REGULAR_EDGES = 1_000_000;

const STATE_EFFORT = 2;
const EDGE_EFFORT = 0.5;
/** Of looking whether two edges have a character in common. */
const COMPARE_EFFORT = 0.02;
/** Of each edge of a set of states that becomes one. */
const SPLIT_EFFORT = 1.5;

/** Collects the states of an automaton and refuses too many. */
export class AutomatonBuilder {
  readonly #states: { accepting: boolean; edges: CodePointEdge[] }[] = [];
  #edges = 0;

  get size(): number {
    return this.#states.length;
  }

  /** @returns The number of the new state; the first is the start. */
  add(accepting: boolean): number {
    if (this.#states.length === MAX_REGULAR_STATES) refuse(`${MAX_REGULAR_STATES} states`);
    spendEffort(STATE_EFFORT);
    return this.#states.push({ accepting, edges: [] }) - 1;
  }

  connect(state: number, edge: CodePointEdge): void {
    if (++this.#edges > MAX_REGULAR_EDGES) refuse(`${MAX_REGULAR_EDGES} edges`);
    spendEffort(EDGE_EFFORT);
    this.#states[state]!.edges.push(edge);
  }

  /** Without the states from which no text can be completed. */
  build(): CodePointAutomaton {
    return trim({ states: this.#states });
  }
}

function refuse(limit: string): never {
  throw new GrammarError(`Cannot build the automaton: it needs more than ${limit}`);
}

/** Only the states on a way from the start to an accepting one. The start always stays. */
export function trim(automaton: CodePointAutomaton): CodePointAutomaton {
  const { states } = automaton;
  const useful = usefulStates(states);
  const numbers = new Int32Array(states.length);
  let count = 0;
  useful.forEach((isUseful, state) => {
    numbers[state] = isUseful === 1 ? count++ : NO_STATE;
  });
  if (count === states.length) return automaton;
  const kept: CodePointState[] = [];
  states.forEach(({ accepting, edges }, state) => {
    if (useful[state] === 0) return;
    const targets: CodePointEdge[] = [];
    for (const { first, last, target } of edges) {
      if (useful[target] === 1) targets.push({ first, last, target: numbers[target]! });
    }
    kept.push({ accepting, edges: targets });
  });
  return { states: kept };
}

const NO_STATE = -1;

/** 1 for each state on a way from the start to an accepting one, and for the start. */
function usefulStates(states: readonly CodePointState[]): Uint8Array {
  const reached = reach(states);
  // For each state the edges that lead to it, as a list: the last one, and before each the one before.
  const lastTo = new Int32Array(states.length).fill(NO_STATE);
  const before: number[] = [];
  const sources: number[] = [];
  const useful = new Uint8Array(states.length);
  const waiting: number[] = [];
  for (const state of reached) {
    const { accepting, edges } = states[state]!;
    if (accepting) {
      useful[state] = 1;
      waiting.push(state);
    }
    for (const { target } of edges) {
      before.push(lastTo[target]!);
      lastTo[target] = sources.push(state) - 1;
    }
  }
  for (let state = waiting.pop(); state !== undefined; state = waiting.pop()) {
    for (let edge = lastTo[state]!; edge !== NO_STATE; edge = before[edge]!) {
      const source = sources[edge]!;
      if (useful[source] === 1) continue;
      useful[source] = 1;
      waiting.push(source);
    }
  }
  useful[0] = 1;
  return useful;
}

/** The start and all states that it leads to. */
function reach(states: readonly CodePointState[]): number[] {
  const seen = new Uint8Array(states.length);
  seen[0] = 1;
  const reached = [0];
  // A list yields what is added to it on the way.
  for (const state of reached) {
    for (const { target } of states[state]!.edges) {
      if (seen[target] === 1) continue;
      seen[target] = 1;
      reached.push(target);
    }
  }
  return reached;
}

/** Whether no text is accepted. */
export function isEmpty(automaton: CodePointAutomaton): boolean {
  const { states } = automaton;
  return !reach(states).some((state) => states[state]!.accepting);
}

/** Whether the automaton accepts the whole text, which has no lone surrogates. */
export function accepts({ states }: CodePointAutomaton, text: string): boolean {
  let current = [0];
  for (const character of text) {
    const point = character.codePointAt(0)!;
    const next: number[] = [];
    for (const state of current) {
      const { edges } = states[state]!;
      spendEffort(COMPARE_EFFORT * edges.length);
      for (const { first, last, target } of edges) {
        if (first <= point && point <= last) next.push(target);
      }
    }
    if (next.length === 0) return false;
    current = next.length === 1 ? next : [...new Set(next)];
  }
  return current.some((state) => states[state]!.accepting);
}

/** Texts that both accept. */
export function intersection(a: CodePointAutomaton, b: CodePointAutomaton): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  const numbers = new Map<number, number>();
  const pairs: (readonly [number, number])[] = [];
  const number = (left: number, right: number): number => {
    const key = left * b.states.length + right;
    let known = numbers.get(key);
    if (known === undefined) {
      known = builder.add(a.states[left]!.accepting && b.states[right]!.accepting);
      numbers.set(key, known);
      pairs.push([left, right]);
    }
    return known;
  };
  number(0, 0);
  for (let i = 0; i < pairs.length; i++) {
    const [left, right] = pairs[i]!;
    const [ones, others] = [a.states[left]!.edges, b.states[right]!.edges];
    spendEffort(COMPARE_EFFORT * ones.length * others.length);
    for (const one of ones) {
      for (const other of others) {
        const first = Math.max(one.first, other.first);
        const last = Math.min(one.last, other.last);
        if (first > last) continue;
        builder.connect(i, { first, last, target: number(one.target, other.target) });
      }
    }
  }
  return builder.build();
}

/** Texts that either accepts. */
export function union(a: CodePointAutomaton, b: CodePointAutomaton): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  builder.add(a.states[0]!.accepting || b.states[0]!.accepting);
  for (const { states } of [a, b]) {
    const offset = builder.size;
    for (const { accepting } of states) builder.add(accepting);
    states.forEach(({ edges }, state) => {
      for (const edge of edges) {
        const moved = { ...edge, target: edge.target + offset };
        builder.connect(offset + state, moved);
        if (state === 0) builder.connect(0, moved);
      }
    });
  }
  return builder.build();
}

/** Texts that the first accepts and the second does not. */
export function difference(a: CodePointAutomaton, b: CodePointAutomaton): CodePointAutomaton {
  return intersection(a, complement(b));
}

/** Texts that the automaton does not accept; texts with lone surrogates are none. */
export function complement(automaton: CodePointAutomaton): CodePointAutomaton {
  const { states } = determinize(automaton);
  const builder = new AutomatonBuilder();
  for (const { accepting } of states) builder.add(!accepting);
  const rest = builder.add(true);
  const missing: readonly CodePointState[] = [...states, { accepting: false, edges: [] }];
  missing.forEach(({ edges }, state) => {
    let next = 0;
    for (const edge of edges) {
      builder.connect(state, edge);
      connectCodePoints(builder, state, { first: next, last: edge.first - 1, target: rest });
      next = edge.last + 1;
    }
    connectCodePoints(builder, state, { first: next, last: MAX_CODE_POINT, target: rest });
  });
  return builder.build();
}

/** An edge for what of the range is not a surrogate. */
function connectCodePoints(
  builder: AutomatonBuilder,
  state: number,
  { first, last, target }: CodePointEdge,
): void {
  for (const [from, to] of codePoints([[first, last]])) {
    builder.connect(state, { first: from, last: to, target });
  }
}

/**
 * The same language with at most one way to read each text, edges rising and disjoint.
 *
 * @param everything A state from which every text is accepted: beside it no other matters.
 */
export function determinize(
  { states }: CodePointAutomaton,
  everything?: number,
): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  const numbers = new Map<string, number>();
  const sets: (readonly number[])[] = [];
  const number = (all: readonly number[]): number => {
    const members = everything !== undefined && all.includes(everything) ? [everything] : all;
    const key = members.join();
    let known = numbers.get(key);
    if (known === undefined) {
      known = builder.add(members.some((state) => states[state]!.accepting));
      numbers.set(key, known);
      sets.push(members);
    }
    return known;
  };
  number([0]);
  for (let i = 0; i < sets.length; i++) {
    const edges = sets[i]!.flatMap((state) => states[state]!.edges);
    spendEffort(SPLIT_EFFORT * edges.length);
    for (const { first, last, targets } of splitEdges(edges)) {
      builder.connect(i, { first, last, target: number(targets) });
    }
  }
  return builder.build();
}

export interface Cut {
  readonly first: number;
  readonly last: number;
  /** Rising. */
  readonly targets: readonly number[];
}

/** Cuts overlapping edges where one begins or ends; neighbours with the same targets are one. */
export function splitEdges(edges: readonly CodePointEdge[]): Cut[] {
  const events = edges.flatMap(({ first, last, target }) => [
    { at: first, target, change: 1 },
    { at: last + 1, target, change: -1 },
  ]);
  events.sort((a, b) => a.at - b.at);
  const open = new Map<number, number>();
  const cuts: { first: number; last: number; targets: readonly number[] }[] = [];
  for (let i = 0; i < events.length; ) {
    const { at } = events[i]!;
    for (; i < events.length && events[i]!.at === at; i++) {
      const { target, change } = events[i]!;
      const count = (open.get(target) ?? 0) + change;
      if (count === 0) open.delete(target);
      else open.set(target, count);
    }
    if (open.size === 0) continue;
    const targets = [...open.keys()].sort((a, b) => a - b);
    const last = events[i]!.at - 1;
    const previous = cuts.at(-1);
    if (previous?.last === at - 1 && isSameList(previous.targets, targets)) {
      previous.last = last;
    } else {
      cuts.push({ first: at, last, targets });
    }
  }
  return cuts;
}

function isSameList(a: readonly number[], b: readonly number[]): boolean {
  return a.length === b.length && a.every((value, i) => value === b[i]);
}

/**
 * All texts of the language, or undefined when there are more than `limit`.
 *
 * @returns In the order of their code points.
 */
export function textsOf(automaton: CodePointAutomaton, limit: number): string[] | undefined {
  const { states } = determinize(automaton);
  const found: string[] = [];
  const stack = [{ state: 0, text: "", depth: 0 }];
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const { state, text, depth } = entry;
    // Longer than there are states: it has gone in a circle, and every state can be completed.
    if (depth >= states.length) return undefined;
    const { accepting, edges } = states[state]!;
    if (accepting && found.push(text) > limit) return undefined;
    for (const { first, last, target } of edges.toReversed()) {
      if (last - first >= limit) return undefined;
      for (let point = last; point >= first; point--) {
        stack.push({ state: target, text: text + String.fromCodePoint(point), depth: depth + 1 });
      }
    }
    // Each waiting entry has a text of its own ahead.
    if (stack.length + found.length > limit) return undefined;
  }
  return found;
}
