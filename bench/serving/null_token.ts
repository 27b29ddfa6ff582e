/**
 * What a model that computes nothing says.
 *
 * @module
 */

/** Its token at a position: one of those that are ordinary text in the embedded vocabulary. */
export function nullToken(position: number): number {
  return 300 + ((position * 7919) % 700);
}
