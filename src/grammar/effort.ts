/**
 * Bounds the work that one constraint causes until it is compiled, whatever it consists of.
 *
 * A single automaton, pattern or schema has limits of its own; that many of them together do not
 * take long either is seen to here. Each function counts its work where it does it, in units of
 * about a microsecond. Compiling is one synchronous call, so one counter will do.
 *
 * @module
 */

import { GrammarError } from "./grammar_error.ts";

/** Of one constraint, whatever it is. */
export const MAX_EFFORT = 500_000;
/** More for each UTF-16 unit of it: a large schema takes as long as many small ones. */
export const EFFORT_PER_UNIT = 2;

/** What a constraint of so many UTF-16 units may take. */
export function effortFor(units: number): number {
  return MAX_EFFORT + EFFORT_PER_UNIT * units;
}

let left = Number.POSITIVE_INFINITY;

/**
 * Does some work, whose own calls of `spendEffort` it is bounded by.
 *
 * @throws {GrammarError} when it takes more than `units`.
 */
export function limitEffort<T>(units: number, work: () => T): T {
  const outside = left;
  left = units;
  try {
    return work();
  } finally {
    left = outside;
  }
}

/**
 * Does some work if it takes at most `units`; what it took counts.
 *
 * @returns Undefined when it takes more, or is beyond another limit.
 */
export function attempt<T>(units: number, work: () => T): T | undefined {
  const outside = left;
  const given = Math.min(units, outside);
  left = given;
  try {
    return work();
  } catch (error) {
    if (error instanceof GrammarError) return undefined;
    throw error;
  } finally {
    left = outside - (given - left);
  }
}

/**
 * Counts work of about so many microseconds.
 *
 * @throws {GrammarError} when it is too much for one constraint. Without a limit around it never.
 */
export function spendEffort(units: number): void {
  left -= units;
  if (left < 0) throw new GrammarError("Cannot compile the grammar: it takes too much work");
}
