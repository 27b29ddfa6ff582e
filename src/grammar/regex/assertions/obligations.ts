/**
 * What is left to match of lookaheads that a text has met, as states of automata over what follows.
 *
 * @module
 */

import { codePoints } from "../../automaton/code_points.ts";
import { complement, determinize, isEmpty } from "../../automaton/regular.ts";
import { attempt, spendEffort } from "../../effort.ts";
import type { CodePointAutomaton, CodePointEdge, CodePointState } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";

/** A lookahead that needs nothing more, and one that cannot be met: in place of numbers. */
export const MET = -1;
export const HOPELESS = -2;

/** Of making a lookahead deterministic; it is followed as it is where that takes more. */
const EASY_EFFORT = 20_000;
/** The same of one that must not match, which has to be. */
const MOST_EFFORT = 100_000;
const EDGE_EFFORT = 0.1;
const COMPARE_EFFORT = 0.02;
const ALL_CODE_POINTS = 0x110000 - 0x800;

interface Obligation {
  /** Whether the text may end. */
  readonly accepting: boolean;
  readonly edges: readonly CodePointEdge[];
  /** Whether its edges rise and have no character in common. */
  readonly isSorted: boolean;
}

export class Obligations {
  readonly #list: Obligation[] = [];

  /**
   * @param rest The texts before which the lookahead would match.
   * @returns The number of the first obligation, `MET` or `HOPELESS`.
   */
  begin(
    rest: CodePointAutomaton,
    { negated, position }: { readonly negated: boolean; readonly position: number },
  ): number {
    if (isEmpty(rest)) return negated ? MET : HOPELESS;
    const made = negated ? excluding(rest, position) : attempt(EASY_EFFORT, () => simple(rest));
    const { states } = made ?? rest;
    if (isEmpty({ states })) return HOPELESS;
    const isAll = findEverything(states);
    const offset = this.#list.length;
    const numbers = states.map((_, state) => (isAll[state] === 1 ? MET : offset + state));
    for (const { accepting, edges } of states) {
      const moved = edges.map(({ first, last, target }) => {
        return { first, last, target: numbers[target]! };
      });
      this.#list.push({ accepting, edges: moved, isSorted: made !== undefined });
    }
    return numbers[0]!;
  }

  allowsEnd(number: number): boolean {
    return this.#list[number]!.accepting;
  }

  /** Edges with a character of the range. */
  edges(number: number, first: number, last: number): readonly CodePointEdge[] {
    const { edges, isSorted } = this.#list[number]!;
    if (isSorted) return sortedBetween(edges, first, last);
    spendEffort(COMPARE_EFFORT * edges.length);
    return edges.filter((edge) => edge.first <= last && first <= edge.last);
  }
}

/** Those of edges that rise and are disjoint which have a character of the range. */
export function sortedBetween<T extends { readonly first: number; readonly last: number }>(
  edges: readonly T[],
  first: number,
  last: number,
): readonly T[] {
  let low = 0;
  let high = edges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (edges[middle]!.last < first) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < edges.length && edges[end]!.first <= last) end += 1;
  return edges.slice(low, end);
}

function simple(rest: CodePointAutomaton): CodePointAutomaton {
  const everything = rest.states.findIndex(isEverything);
  return determinize(rest, everything < 0 ? undefined : everything);
}

function excluding(rest: CodePointAutomaton, position: number): CodePointAutomaton {
  const made = attempt(MOST_EFFORT, () => simple(complement(simple(rest))));
  if (made !== undefined) return made;
  throw new GrammarError("Cannot use the negative lookahead: it needs too many states", {
    position,
  });
}

function isEverything({ accepting, edges }: CodePointState, state: number): boolean {
  return accepting && edges.every(({ target }) => target === state) && isComplete(edges);
}

/** Whether every character has an edge. */
function isComplete(edges: readonly CodePointEdge[]): boolean {
  const points = codePoints(edges.map(({ first, last }) => [first, last] as const));
  return points.reduce((sum, [first, last]) => sum + last - first + 1, 0) === ALL_CODE_POINTS;
}

/** 1 for each state from which every text is accepted. */
function findEverything(states: readonly CodePointState[]): Uint8Array {
  const isAll = Uint8Array.from(states, ({ accepting, edges }) => {
    return accepting && isComplete(edges) ? 1 : 0;
  });
  for (let changed = true; changed; ) {
    changed = false;
    for (let state = states.length - 1; state >= 0; state--) {
      if (isAll[state] === 0) continue;
      const { edges } = states[state]!;
      spendEffort(EDGE_EFFORT * edges.length);
      if (edges.every(({ target }) => isAll[target] === 1)) continue;
      isAll[state] = 0;
      changed = true;
    }
  }
  return isAll;
}
