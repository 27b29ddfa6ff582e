/**
 * What a machine's noise makes of measurements that take turns.
 *
 * @module
 */

/** Noise that is allowed for at most: a run with more of it says little. */
const MOST_NOISE = 0.1;

/** The upper one where there are two. */
export const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

/**
 * How far the speeds of two alike are apart: the median of rounds from 1, and twice its standard error by
 * the rounds' middle half.
 *
 * @param ratios One's speed to the other's, in each round.
 */
export function noiseOf(ratios: readonly number[]): number {
  const sorted = [...ratios].sort((a, b) => a - b);
  const at = (share: number) => sorted[Math.round(share * (sorted.length - 1))]!;
  // Of a normal distribution the middle half is 1.35 deviations wide, and a median 1.25 times as wide as a mean.
  const error = (1.25 * (at(0.75) - at(0.25))) / 1.35 / Math.sqrt(ratios.length);
  return Math.min(Math.abs(median(ratios) - 1) + 2 * error, MOST_NOISE);
}
