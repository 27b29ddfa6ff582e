/**
 * Which lengths the texts of a regular language have, so that bounds of lengths can be counted beside
 * its automaton: written into it, each of its states would be there once for each length.
 *
 * @module
 */

import { spendEffort } from "../../effort.ts";
import type { CodePointAutomaton } from "../../expression.ts";

/** Characters after which nothing changes any more, or the language is of another kind. */
const MAX_LENGTH = 1_000;
const EDGE_EFFORT = 0.02;
const ENDLESS = Number.POSITIVE_INFINITY;

export interface Bounds {
  readonly min: number;
  readonly max: number;
}

/** Of the texts behind each state, in characters. */
export interface Lengths {
  /** Of the shortest; Infinity where there is none. */
  readonly shortest: readonly number[];
  /** Of the longest; Infinity where there is none that is. */
  readonly longest: readonly number[];
  /** Characters on the shortest way to the state. */
  readonly depths: readonly number[];
  /** The most lengths in a row that no text behind some state has, while longer ones do. */
  readonly widestGap: number;
}

/** @returns Nothing where the lengths of the longest texts never become regular enough. */
export function lengthsOf({ states }: CodePointAutomaton): Lengths | undefined {
  const shortest = states.map(({ accepting }) => (accepting ? 0 : ENDLESS));
  const longest: number[] = states.map(({ accepting }) => (accepting ? 0 : -1));
  const targets = states.map(({ edges }) => [...new Set(edges.map(({ target }) => target))]);
  const edges = targets.reduce((sum, list) => sum + list.length, 1);
  let widestGap = 0;
  let ends = states.map(({ accepting }) => accepting);
  for (let length = 1; length <= MAX_LENGTH; length++) {
    spendEffort(EDGE_EFFORT * edges);
    const before = ends;
    ends = targets.map((list) => list.some((target) => before[target]));
    const isSteady = ends.every((isEnd, state) => isEnd === before[state]);
    for (const [state, isEnd] of ends.entries()) {
      if (!isEnd) continue;
      if (shortest[state] !== ENDLESS) {
        widestGap = Math.max(widestGap, length - 1 - longest[state]!);
      }
      shortest[state] = Math.min(shortest[state]!, length);
      longest[state] = isSteady ? ENDLESS : length;
    }
    if (isSteady) return { shortest, longest, depths: depthsOf(targets), widestGap };
  }
  return undefined;
}

function depthsOf(targets: readonly (readonly number[])[]): readonly number[] {
  const depths = targets.map(() => ENDLESS);
  depths[0] = 0;
  const reached = new Set([0]);
  for (const state of reached) {
    for (const target of targets[state]!) {
      if (reached.has(target)) continue;
      reached.add(target);
      depths[target] = depths[state]! + 1;
    }
  }
  return depths;
}

/** Whether there is a text of such a length, where the lengths can be counted. */
export function hasLength({ shortest, longest }: Lengths, { min, max }: Bounds): boolean {
  return shortest[0]! <= max && longest[0]! >= min;
}

/**
 * Whether a way to an end of a right length is left wherever one is that is not too long: no text can
 * come to where all others are too short, and the bounds are wider than any gap.
 */
export function canBeCounted(
  { shortest, longest, depths, widestGap }: Lengths,
  { min, max }: Bounds,
): boolean {
  if (min > 0 && max - min < widestGap) return false;
  return longest.every((most, state) => {
    const isLive = shortest[state] !== ENDLESS && depths[state] !== ENDLESS;
    return !isLive || most >= min - depths[state]!;
  });
}
