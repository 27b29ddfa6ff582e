/**
 * What is known of the drafts of one sequence.
 *
 * @module
 */
import { Acceptance } from "./acceptance.ts";

/** One sequence, as long as it lives. */
export class DraftHistory {
  readonly acceptance: Acceptance;
  /** What is thought of all sequences of its kind. */
  readonly general: Acceptance;
  /** Drafts that its newest step verifies, probes aside; undefined before its first. */
  length: number | undefined;
  /** Drafts that its newest probe verifies, until it has ended. */
  probed: number | undefined;

  /** @param options As `Acceptance` has them. */
  constructor(general: Acceptance, options?: { readonly isCautious?: boolean }) {
    this.general = general;
    this.acceptance = new Acceptance(general, options);
  }
}

/** A sequence of the next step. */
export interface DraftingSequence {
  readonly history: DraftHistory;
  /** Drafts that it has use for: fewer at its end, none where there are none to verify. */
  readonly most: number;
  /** Tokens of the match that they go on with. Default 0: they are a model's. */
  readonly matched?: number;
}

/** A draft that could be verified. */
export interface Candidate {
  readonly sequence: number;
  /** From 0. */
  readonly index: number;
  /** That it and all before it are accepted. */
  readonly probability: number;
}

/**
 * The drafts of all sequences, the most probable first; of one sequence, in their order.
 *
 * @param least Without those that are less probable. Default 0.
 */
export function candidatesOf(sequences: readonly DraftingSequence[], least = 0): Candidate[] {
  const candidates: Candidate[] = [];
  for (const [sequence, { history, most, matched }] of sequences.entries()) {
    let probability = 1;
    for (const [index, rate] of history.acceptance.rates(most, matched).entries()) {
      probability *= rate;
      if (probability < least) break;
      candidates.push({ sequence, index, probability });
    }
  }
  return candidates.sort((a, b) => b.probability - a.probability || a.index - b.index);
}
