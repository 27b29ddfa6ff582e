/**
 * What drafts did for requests, in numbers.
 *
 * @module
 */

/** What became of drafts: tokens that were guessed, and verified several at a time. */
export interface SpeculationFigures {
  /** Times that a step sampled a request's tokens, those of the first tokens not counted. */
  readonly verifySteps: number;
  /** Drafts that they verified, and those of them that were right: each was one token more. */
  readonly proposedDrafts: number;
  readonly acceptedDrafts: number;
}

/** Tokens that a request got from a step, on average; 0 before there was one. */
export function acceptLength({ verifySteps, acceptedDrafts }: SpeculationFigures): number {
  return verifySteps === 0 ? 0 : (verifySteps + acceptedDrafts) / verifySteps;
}
