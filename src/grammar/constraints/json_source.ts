/**
 * A constraint that came as a value -> its JSON text.
 *
 * @module
 */

import { InvalidRequestError } from "../../errors.ts";
import { isLongJson, MAX_CONSTRAINT_UNITS } from "../../request_limits.ts";

/**
 * @param field Where the value came from, for errors.
 * @throws {InvalidRequestError} when it nests too deep for a stack, has circles or is no JSON, or one
 * of its numbers is too large for a double: it would be written as null. So it does, before it writes
 * any of it, when the text would be longer than a constraint may be.
 */
export function jsonSource(value: unknown, field: string): string {
  if (isLongJson(value, MAX_CONSTRAINT_UNITS)) {
    const problem = `it is longer than ${MAX_CONSTRAINT_UNITS} characters`;
    throw new InvalidRequestError(`Cannot write ${field} as JSON: ${problem}`, field);
  }
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
