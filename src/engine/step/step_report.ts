/**
 * What a step has computed, in figures for logs.
 *
 * @module
 */
import type { SpeculationFigures } from "../../speculation_figures.ts";
import type { CommittedStep, ScheduledStep } from "../schedule/scheduled_step.ts";

export interface StepReport {
  /** Sequences with prompt tokens in the step. */
  readonly prompts: number;
  /** Prompt tokens computed. */
  readonly promptTokens: number;
  /** Prompt tokens that the cache had, of the prompts that began in the step. */
  readonly cachedTokens: number;
  /** Rows of generated tokens, drafts not counted: one for each sequence that decodes. */
  readonly decodedTokens: number;
  /** Tokens that sequences got. */
  readonly sampledTokens: number;
  /** Of the sequences that got tokens behind their first one. */
  readonly speculation: SpeculationFigures;
}

/** @param committed As `Scheduler.commit` tells. */
export function reportStep(
  { batch, progress }: ScheduledStep,
  committed: CommittedStep,
): StepReport {
  let prompts = 0;
  let promptTokens = 0;
  let cachedTokens = 0;
  let decodedTokens = 0;
  batch.sequences.forEach(({ phase, position, queryLength }, i) => {
    const { sequence, computed } = progress[i]!;
    if (phase !== "prefill") {
      decodedTokens += computed - position;
      return;
    }
    prompts += 1;
    promptTokens += queryLength;
    if (position === sequence.cachedTokens) cachedTokens += position;
  });
  return { prompts, promptTokens, cachedTokens, decodedTokens, ...committed };
}
