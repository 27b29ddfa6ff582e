/**
 * A draft module that is played: it drafts what the model goes on with, with faults, and looks at what
 * its rows know of the tokens behind them.
 *
 * @module
 */
import { FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { BatchSequence } from "../../../src/layers/batch.ts";
import { draftsOf } from "./simulated_model.ts";

/** The rows of a sequence, where they really stand. */
export interface Place extends BatchSequence {
  readonly owner: Sequence;
  /** Tokens that it has computed then. */
  readonly computed: number;
  /** What the rows behind them verify. */
  readonly drafted: readonly number[];
}

/**
 * What the GPU knows of a step's sequences.
 *
 * @param made What the step before has drafted.
 * @param tokensOf Those of a sequence, those included that the host does not know yet.
 * @throws {Error} when the host has taken one to stand elsewhere.
 */
export function placesOf(
  { batch, progress, drafts }: ScheduledStep,
  made: readonly Uint32Array[],
  tokensOf: (sequence: Sequence) => readonly number[],
): readonly Place[] {
  return batch.sequences.map((one, i) => {
    const { sequence: owner, computed } = progress[i]!;
    const { continues, position: least, queryLength } = one;
    if (continues === undefined) {
      return { ...one, owner, computed, drafted: drafts.get(owner) ?? [] };
    }
    const position = tokensOf(owner).length - 1;
    const isThere = position >= least && position <= least + continues.slack;
    if (!isThere) throw new Error("a row stands elsewhere");
    const drafted = [...made[continues.from]!.slice(0, queryLength - 1)];
    return { ...one, owner, position, computed: position + 1, drafted };
  });
}

/**
 * @param results `ids`: what the step has sampled; `tokensOf`: those of a sequence, these included.
 * @returns The drafts of each sequence that asked.
 * @throws {Error} when a row takes another token for the one behind it.
 */
export function draftStep(
  { batch: { nextSources }, draftRequest }: ScheduledStep,
  places: readonly Place[],
  {
    ids,
    tokensOf,
  }: {
    readonly ids: Uint32Array;
    readonly tokensOf: (sequence: Sequence) => readonly number[];
  },
): Uint32Array[] {
  for (const { owner, queryStart, queryLength, position } of places) {
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
