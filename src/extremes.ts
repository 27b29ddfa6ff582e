/**
 * The largest and the smallest of a list of any length: a call with the list spread as its arguments
 * overflows the stack from some ten thousand on.
 *
 * @module
 */

/** @param least The answer for no values, and for values that are all below it. */
export function largestOf(values: Iterable<number>, least = Number.NEGATIVE_INFINITY): number {
  let largest = least;
  for (const value of values) largest = Math.max(largest, value);
  return largest;
}

/** @param most The answer for no values, and for values that are all above it. */
export function smallestOf(values: Iterable<number>, most = Number.POSITIVE_INFINITY): number {
  let smallest = most;
  for (const value of values) smallest = Math.min(smallest, value);
  return smallest;
}
