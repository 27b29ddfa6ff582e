/**
 * How much a scheduler may put into a step, and whom it lets run.
 *
 * @module
 */
import type { DraftTreeSizes } from "../../layers/tree_tensors.ts";
import type { DraftChoice } from "../drafts/draft_choice.ts";
import type { SchedulePolicy } from "./schedule_policy.ts";

export interface SchedulerOptions {
  /** Sequences that may run at once. */
  readonly maxRunningRequests: number;
  /** Generated rows of one step, drafts among them. Default: one of each sequence. */
  readonly maxGeneratedRows?: number;
  /** Sequences that may wait. */
  readonly maxQueuedRequests: number;
  /** Drafts that a step makes for each sequence that samples, by the model's draft module. Default 0. */
  readonly draftSteps?: number;
  /** How many of them a step verifies and makes. Default: all. */
  readonly draftChoice?: DraftChoice | undefined;
  /** The trees that these drafts are. Default: they follow each other. */
  readonly tree?: DraftTreeSizes | undefined;
  /** Tokens of a sequence that pages may be had for; drafts go no further. Default: no limit. */
  readonly contextLength?: number;
  /** Rows of one step. */
  readonly maxRows: number;
  /** Prompt rows of one step. */
  readonly maxPrefillRows: number;
  /** Prompt rows of one step beyond its first sequence's. */
  readonly maxPrefillTokens: number;
  /** Keys that the prompt rows of one step may look at; one sequence's always fit. */
  readonly maxPrefillKeys: number;
  /** Prompt rows of one step whose logits may be wanted, at least 1. Default 1. */
  readonly maxScoredRows?: number;
  /** Whether a step may hold prompt rows beside generated ones. */
  readonly mixedChunks: boolean;
  readonly policy: SchedulePolicy;
  /** Above 1 more room is kept for what running sequences will still generate, below 1 less. */
  readonly conservativeness: number;
}
