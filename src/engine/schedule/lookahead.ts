/**
 * How far steps run ahead of the host: what the scheduler can tell of the next ones, and for how many
 * at once the readbacks have room.
 *
 * @module
 */

/** Steps that are ever in flight together. */
export const MOST_IN_FLIGHT = 4;

/**
 * How many of the next steps the scheduler can make before it knows the tokens of the last one:
 * `far` while no sequence waits for a place and only the GPU needs the next tokens, `none` when the
 * next row of every sequence depends on the tokens of the last step.
 */
export type Lookahead = "far" | "near" | "none";
