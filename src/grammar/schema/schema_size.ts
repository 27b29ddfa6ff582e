/**
 * How large a schema may be, however it came.
 *
 * @module
 */

import { GrammarError } from "../grammar_error.ts";

/** Values of all kinds inside a schema. */
export const MAX_VALUES = 200_000;
export const MAX_DEPTH = 200;

/** @throws {GrammarError} when a schema has more than so many values. */
export function checkCount(values: number): void {
  if (values > MAX_VALUES) {
    throw new GrammarError(`Cannot read the schema: it has more than ${MAX_VALUES} values`);
  }
}

/** @throws {GrammarError} when more than so many values around another one are too many. */
export function checkDepth(depth: number): void {
  if (depth > MAX_DEPTH) {
    throw new GrammarError(`Cannot read the schema: it nests deeper than ${MAX_DEPTH} levels`);
  }
}

/**
 * Checks a schema that did not come as text. Without recursion, as nothing is known of its depth.
 *
 * @throws {GrammarError} when it is too large, or one of its numbers is no number of JSON.
 */
export function checkSize(schema: unknown): void {
  let count = 0;
  let level: readonly unknown[] = [schema];
  for (let depth = 0; level.length > 0; depth++) {
    checkDepth(depth);
    count += level.length;
    checkCount(count);
    const next: unknown[] = [];
    for (const value of level) {
      if (typeof value === "number" && !Number.isFinite(value)) {
        throw new GrammarError("Cannot read the schema: one of its numbers is too large");
      }
      if (typeof value !== "object" || value === null) continue;
      for (const part of Object.values(value)) next.push(part);
    }
    level = next;
  }
}
