/**
 * What runs the steps of an engine: a model on one device, or the ranks of a group that share one.
 *
 * @module
 */
import type { Recorder } from "../../gpu/recorder.ts";
import type { Batch } from "../../layers/batch.ts";
import type { SampledRow } from "../sample/sampled_row.ts";
import type { StepOptions, SubmittedStep } from "./model_runner.ts";

export interface StepRunner {
  /** Records the launches that profiles show: of several ranks, the first one's. */
  readonly recorder: Recorder;
  /** Prompt rows that one step may score beside a sampled row of every sequence. */
  readonly maxScoredRows: number;
  /** As `ModelRunner.submit`. */
  submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options?: StepOptions,
  ): Promise<SubmittedStep>;
}
