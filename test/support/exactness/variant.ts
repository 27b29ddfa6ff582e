/**
 * One way for an engine to come to the answers of the exactness matrix, and what several have in common.
 *
 * @module
 */
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import type { Outcome, Run } from "./exactness.ts";
import { LONGEST, SHORT } from "./models.ts";

export interface Variant extends Run {
  readonly name: string;
  /** Only holds where prompts and answers are computed in one form. */
  readonly oneForm?: true;
  /** Shows that it has happened. */
  readonly proof: (outcome: Outcome) => void;
}

/** Room for the prompts of two requests, which are both started, and a few pages more. */
export function crowded(spare: number) {
  const pageSize = 4;
  const pages = Math.ceil(LONGEST / pageSize) + Math.ceil(SHORT / pageSize) + spare;
  const tokens = pageSize * pages;
  return { pageSize, contextLength: tokens, maxTotalTokens: tokens, scheduleConservativeness: 0 };
}
/** Enough for half of their answers. */
export const TIGHT = crowded(2);
export const HOST = { retractionMemory: 2 ** 26 };

export const SHARES_READS = {
  ...PLAIN_TUNING,
  attention: { ...PLAIN_TUNING.attention!, sharesReads: true },
};
