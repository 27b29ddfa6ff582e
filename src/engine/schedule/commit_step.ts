/**
 * Gives sequences what a step has drawn and drafted for them.
 *
 * @module
 */
import type { SpeculationFigures } from "../../generation.ts";
import type { ScheduledStep } from "./scheduled_step.ts";
import type { Sequence } from "./sequence.ts";
import { NO_FIGURES, withStep } from "./sequence_drafts.ts";

/** What sequences got from a step. */
export interface CommittedStep {
  readonly sampledTokens: number;
  /** Of the sequences that got tokens behind their first one. */
  readonly speculation: SpeculationFigures;
}

/** What came back from the GPU. */
export interface StepResults {
  /** By sampled row. */
  readonly tokens: Uint32Array;
  /** By sequence of the step's `draftRequest`. */
  readonly proposed: readonly Uint32Array[];
}

const NO_DRAFTS: readonly number[] = [];

/** @param give Calls `accept` where the sequence still runs. */
export function commitStep(
  { sampled, drafts, draftRequest }: ScheduledStep,
  { tokens, proposed }: StepResults,
  give: (sequence: Sequence, accept: () => void) => void,
): CommittedStep {
  let sampledTokens = 0;
  let speculation = NO_FIGURES;
  let owner = 0;
  for (let row = 0; row < sampled.length; ) {
    const sequence = sampled[row]!;
    const verified = drafts.get(sequence) ?? NO_DRAFTS;
    const drawn = tokens.subarray(row, row + 1 + verified.length);
    const made = draftRequest?.owners[owner] === sequence ? proposed[owner++] : undefined;
    row += drawn.length;
    give(sequence, () => {
      const isFirst = sequence.completionLength === 0;
      const taken = sequence.accept(drawn, verified, made && Array.from(made));
      sampledTokens += taken;
      if (!isFirst) speculation = withStep(speculation, verified.length, taken - 1);
    });
  }
  return { sampledTokens, speculation };
}
