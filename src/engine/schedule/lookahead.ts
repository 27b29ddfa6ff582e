/**
 * How far steps run ahead of the host: what the scheduler can tell of the next ones, and for how many
 * at once the readbacks have room.
 *
 * @module
 */
import type { Sequence } from "./sequence.ts";

/** Steps that are ever in flight together. */
export const MOST_IN_FLIGHT = 4;

/**
 * How many of the next steps the scheduler can make before it knows the tokens of the last one:
 * `far` while no sequence waits for a place and only the GPU needs the next tokens, `none` when the
 * next row of every sequence depends on the tokens of the last step.
 */
export type Lookahead = "far" | "near" | "none";

/** @param waiting How many wait for a place. */
export function lookaheadOf(running: readonly Sequence[], waiting: number): Lookahead {
  const isDecoding = (one: Sequence) => one.computed >= one.promptLength;
  // Run ahead, those that none may run ahead of would take turns in place of sharing steps.
  if (running.every((one) => isDecoding(one) && !one.runsAhead)) return "none";
  const goesOn = running.every((one) => isDecoding(one) && one.runsAhead);
  return goesOn && waiting === 0 ? "far" : "near";
}
