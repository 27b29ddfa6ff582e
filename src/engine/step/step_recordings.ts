/**
 * The launches of decode steps, kept for later steps of the same sizes.
 *
 * @module
 */
import { Recording } from "../../gpu/plan.ts";
import type { MicroBatchSteps, Step } from "../../layers/batch.ts";
import type { BatchLimits } from "./batch_limits.ts";

/** What else than its counts decides the launches of a step that is kept. */
interface KeptStep
  extends Pick<Step, "decodeSplits" | "decodeGroups" | "logitRows" | "onlyBest" | "draft"> {
  readonly microBatches: readonly KeptMicroBatch[] | undefined;
}

type KeptMicroBatch = Pick<Step, "rows" | "decodeGroups">;

export class StepRecordings {
  readonly #limits: Pick<BatchLimits, "maxDrafts" | "maxSequences">;
  /** By the counts of a step: the launches kept for it, with what else they are for. */
  readonly #recordings = new Map<number, { readonly step: KeptStep; recording: Recording }>();

  constructor(limits: Pick<BatchLimits, "maxDrafts" | "maxSequences">) {
    this.#limits = limits;
  }

  /** The launches kept for a step of these sizes; none yet, where it is the first. */
  of(step: Step): Recording {
    const { rows, decodesOne, hasTrees, decodeSplits, decodeGroups, logitRows } = step;
    const { onlyBest, draft } = step;
    const { maxDrafts, maxSequences } = this.#limits;
    // One number for all of these, each below what the next is multiplied by.
    const { sequences, steps } = draft ?? { sequences: 0, steps: maxDrafts + 1 };
    const form = decodesOne ? 0 : 1 + Number(hasTrees);
    const forms = (rows * 3 + form) * (maxDrafts + 2) + steps;
    const key = forms * (maxSequences + 1) + sequences;
    const known = this.#recordings.get(key);
    if (known !== undefined && isKeptFor(known.step, step)) return known.recording;
    const recording = new Recording();
    const microBatches = step.microBatches?.map(keptOf);
    const kept = { decodeSplits, decodeGroups, logitRows, onlyBest, draft, microBatches };
    this.#recordings.set(key, { step: kept, recording });
    return recording;
  }
}

const keptOf = ({ rows, decodeGroups }: KeptMicroBatch): KeptMicroBatch => ({ rows, decodeGroups });

function isKeptFor(kept: KeptStep, step: Step): boolean {
  return (
    kept.decodeSplits === step.decodeSplits &&
    kept.decodeGroups === step.decodeGroups &&
    kept.logitRows === step.logitRows &&
    kept.onlyBest === step.onlyBest &&
    isCutAlike(kept.microBatches, step.microBatches) &&
    kept.draft?.splits === step.draft?.splits &&
    kept.draft?.cut?.decodeSplits === step.draft?.cut?.decodeSplits &&
    kept.draft?.firstId === step.draft?.firstId &&
    kept.draft?.draws === step.draft?.draws &&
    kept.draft?.onlyBest === step.draft?.onlyBest
  );
}

function isCutAlike(kept: KeptStep["microBatches"], parts: MicroBatchSteps | undefined): boolean {
  if (kept === undefined || parts === undefined) return kept === parts;
  return parts.every(
    ({ rows, decodeGroups }, one) =>
      kept[one]!.rows === rows && kept[one]!.decodeGroups === decodeGroups,
  );
}
