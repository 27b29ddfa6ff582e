/**
 * Whether a model can draft as a load asks for, and what that takes.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { ModelDefinition } from "../../models/model.ts";

/** Drafts that a sequence may get in a step at most. */
export const MAX_DRAFTS = 32;

/**
 * How many drafts a sequence may get in a step.
 *
 * @param asked `draft`: the model that makes them, where that is not the checkpoint's own module.
 * @throws {InvalidRequestError} naming the option when it is out of range.
 * @throws {UnsupportedError} when the checkpoint cannot draft.
 */
export function requireDrafts(
  { architecture, shape }: Pick<ModelDefinition, "architecture" | "shape">,
  asked: { readonly maxDrafts: number; readonly draft: object | undefined },
): number {
  const { maxDrafts, draft } = asked;
  if (!Number.isInteger(maxDrafts) || maxDrafts < 0 || maxDrafts > MAX_DRAFTS) {
    throw new InvalidRequestError(
      `maxDrafts must be a whole number from 0 to ${MAX_DRAFTS}, got ${maxDrafts}`,
      "maxDrafts",
    );
  }
  if (maxDrafts === 0) return 0;
  if (draft === undefined && shape.draftLayers !== 1) {
    throw new UnsupportedError(
      `multi-token prediction by ${architecture}`,
      `num_nextn_predict_layers is ${shape.draftLayers}, and only 1 is supported`,
    );
  }
  return maxDrafts;
}

/** Bytes of the widest activations of a row in the draft module: its two halves. */
export const draftRowBytes = (hiddenSize: number): number => Math.ceil(hiddenSize / 2) * 16;
