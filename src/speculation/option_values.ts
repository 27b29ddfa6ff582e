/**
 * Words and numbers that options of speculation may be, for those who only read options.
 *
 * @module
 */

/** Drafts that follow each other at most. */
export const MAX_DRAFT_STEPS = 64;

/** Children of a node at most. */
export const MAX_DRAFT_TOPK = 64;

/** Rows of one verification at most, so that a node's path and a step's rows stay small. */
export const MAX_DRAFT_TOKENS = 256;

/** Longer matches tell hardly more, and a token's cost grows with them. */
export const MAX_MATCH_WINDOW = 64;

/** As they are written; `NEXTN` is `EAGLE` with a layer of the checkpoint. */
export const SPECULATIVE_ALGORITHMS = ["EAGLE", "EAGLE3", "NEXTN", "NGRAM", "STANDALONE"] as const;

/** Whether the number of drafts follows acceptance: `auto` where the three numbers are not given. */
export const SPECULATIVE_ADAPTIVE = ["auto", "on", "off"] as const;
