/**
 * How far and how wide drafts go: the three numbers that options give.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import { MAX_DRAFT_STEPS, MAX_DRAFT_TOKENS, MAX_DRAFT_TOPK } from "./option_values.ts";

export interface DraftTreeNumbers {
  /** Steps of the draft: the depth of the tree. */
  readonly steps: number;
  /** Candidates that the draft gives after a beam, and beams that it goes on with. */
  readonly topk: number;
  /** Rows that the target verifies, the root among them. */
  readonly draftTokens: number;
}

export class DraftTreeShape implements DraftTreeNumbers {
  readonly steps: number;
  readonly topk: number;
  readonly draftTokens: number;

  /**
   * @throws {InvalidRequestError} naming the number that is out of range, or by how much the
   *   candidates are too few for the tree.
   */
  constructor({ steps, topk, draftTokens }: DraftTreeNumbers) {
    this.steps = whole("speculation.numSteps", steps, 1, MAX_DRAFT_STEPS);
    this.topk = whole("speculation.eagleTopk", topk, 1, MAX_DRAFT_TOPK);
    this.draftTokens = whole("speculation.numDraftTokens", draftTokens, 2, MAX_DRAFT_TOKENS);
    if (draftTokens - 1 <= this.poolSize) return;
    throw new InvalidRequestError(
      `Cannot use speculation.numDraftTokens ${draftTokens}: ${steps} steps of top-k ${topk} give ` +
        `${this.poolSize} candidates, which is enough for ${this.poolSize + 1} at most`,
      "speculation.numDraftTokens",
    );
  }

  /** Candidates that all steps give together. */
  get poolSize(): number {
    return this.topk + (this.steps - 1) * this.topk ** 2;
  }

  /** The candidates of the steps before this one, so the pool id of its first. */
  poolStart(step: number): number {
    return step === 0 ? 0 : this.topk + (step - 1) * this.topk ** 2;
  }
}

function whole(field: string, value: number, min: number, max: number): number {
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  throw new InvalidRequestError(
    `Cannot use ${field} ${value}: it must be a whole number from ${min} to ${max}`,
    field,
  );
}
