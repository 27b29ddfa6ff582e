/**
 * What a step has computed, in figures for logs.
 *
 * @module
 */
import type { ScheduledStep } from "../schedule/scheduled_step.ts";

export interface StepReport {
  /** Sequences with prompt tokens in the step. */
  readonly prompts: number;
  /** Prompt tokens computed. */
  readonly promptTokens: number;
  /** Prompt tokens that the cache had, of the prompts that began in the step. */
  readonly cachedTokens: number;
  /** Rows of generated tokens: one for each sequence that decodes. */
  readonly decodedTokens: number;
  /** Tokens sampled. */
  readonly sampledTokens: number;
}

export function reportStep({ batch, progress, sampled }: ScheduledStep): StepReport {
  let prompts = 0;
  let promptTokens = 0;
  let cachedTokens = 0;
  let decodedTokens = 0;
  batch.sequences.forEach(({ phase, position, queryLength }, i) => {
    if (phase !== "prefill") {
      decodedTokens += queryLength;
      return;
    }
    prompts += 1;
    promptTokens += queryLength;
    if (position === progress[i]!.sequence.cachedTokens) cachedTokens += position;
  });
  return { prompts, promptTokens, cachedTokens, decodedTokens, sampledTokens: sampled.length };
}
