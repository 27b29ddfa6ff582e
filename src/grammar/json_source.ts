/**
 * A constraint that came as a value -> its JSON text.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";

/**
 * @param field Where the value came from, for errors.
 * @throws {InvalidRequestError} when it nests too deep for a stack, has circles or is no JSON.
 */
export function jsonSource(value: unknown, field: string): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    const problem = cause instanceof RangeError ? "it nests too deep" : (cause as Error).message;
    throw new InvalidRequestError(`Cannot write ${field} as JSON: ${problem}`, field, { cause });
  }
}
