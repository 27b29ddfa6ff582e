/**
 * A constraint that came as a value -> its JSON text.
 *
 * @module
 */

import { InvalidRequestError } from "../../errors.ts";

/**
 * @param field Where the value came from, for errors.
 * @throws {InvalidRequestError} when it nests too deep for a stack, has circles or is no JSON, or one
 * of its numbers is too large for a double: it would be written as null.
 */
export function jsonSource(value: unknown, field: string): string {
  try {
    return JSON.stringify(value, refuseInfinite);
  } catch (cause) {
    const problem = cause instanceof RangeError ? "it nests too deep" : (cause as Error).message;
    throw new InvalidRequestError(`Cannot write ${field} as JSON: ${problem}`, field, { cause });
  }
}

function refuseInfinite(_: string, value: unknown): unknown {
  if (typeof value !== "number" || Number.isFinite(value)) return value;
  throw new TypeError("one of its numbers is too large");
}
