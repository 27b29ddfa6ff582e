/**
 * Rounding as the processors' own language has it.
 *
 * @module
 */

/** To the nearest whole number; halves to the even one. */
export function roundHalfEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest !== 0.5) return Math.round(value);
  return below % 2 === 0 ? below : below + 1;
}
