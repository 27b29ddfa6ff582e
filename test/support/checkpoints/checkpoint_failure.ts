/**
 * What a checkpoint that cannot be read answers.
 *
 * @module
 */
import { expect } from "vitest";
import { CheckpointError } from "../../../src/errors.ts";

/** The error that `work` rejects with, which has to be a `CheckpointError`. */
export async function checkpointFailure(work: Promise<unknown>): Promise<CheckpointError> {
  const error = await work.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(CheckpointError);
  return error as CheckpointError;
}
