/**
 * A draft module that is played: it drafts what the model goes on with, with faults, and looks at what
 * its rows know of the tokens behind them.
 *
 * @module
 */
import { FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { draftsOf } from "./simulated_model.ts";

/**
 * @param ids What the step has sampled.
 * @param tokensOf Those of a sequence, these included.
 * @returns The drafts of each sequence that asked.
 * @throws {Error} when a row takes another token for the one behind it.
 */
export function draftStep(
  { batch, progress, draftRequest }: ScheduledStep,
  ids: Uint32Array,
  tokensOf: (sequence: Sequence) => readonly number[],
): Uint32Array[] {
  const { sequences, nextSources } = batch;
  for (const [i, { queryStart, queryLength, position }] of sequences.entries()) {
    const { sequence: owner } = progress[i]!;
    const tokens = tokensOf(owner);
    for (let j = 0; nextSources !== undefined && j < queryLength; j++) {
      // Behind the first draft that is wrong there is nothing to know.
      if (position + j + 1 >= tokens.length || owner.finish !== null) break;
      const source = nextSources[queryStart + j]!;
      const next = source < FROM_SAMPLED ? source : ids[source - FROM_SAMPLED];
      if (next !== tokens[position + j + 1]) throw new Error("a row has another token behind it");
    }
  }
  return (draftRequest?.owners ?? []).map((owner) => {
    const { steps } = draftRequest!;
    const drafts = draftsOf({ partition: owner.partition, tokens: [...tokensOf(owner)] }, steps);
    return Uint32Array.from({ length: steps }, (_, i) => drafts[i] ?? 2);
  });
}
