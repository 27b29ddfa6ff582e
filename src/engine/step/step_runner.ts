/**
 * What runs the steps of an engine: a model on one device, or the ranks of a group that share one.
 *
 * @module
 */
import type { RunOptions } from "../../gpu/plan.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Batch } from "../../layers/batch.ts";
import type { AdapterRates, RankSpans } from "../../profile.ts";
import type { SampledRow, ScoredRow } from "../sample/sampled_row.ts";
import type { ExpertCounts } from "./expert_counter.ts";
import type { FilledSteps } from "./filled_steps.ts";
import type { DraftRequest } from "./step_drafts.ts";

export interface StepOptions extends RunOptions {
  /** Prompt rows to score, whose logit rows come after those that are sampled. */
  readonly scored?: readonly ScoredRow[];
  /** The drafts that the step is to leave; its model must have been loaded to draft. */
  readonly drafts?: DraftRequest | undefined;
  /** Whether `logits` are wanted even where the sampled ids need only the best of each row. */
  readonly keepsLogits?: boolean;
  /** Takes what the step has chosen of experts, in front of its tokens; else nothing is counted. */
  readonly onExperts?: ((counts: ExpertCounts) => void) | undefined;
}

/** A step on the GPU. */
export interface SubmittedStep {
  /**
   * The sampled ids, once the GPU has finished the step and the log-probabilities that rows ask for
   * are delivered; rejects with a DeviceError when the device is lost.
   */
  readonly tokens: Promise<Uint32Array>;
  /** Of each sequence that was to get drafts, in order, its drafts: with `tokens`, as they come. */
  readonly drafts: Promise<readonly Uint32Array[]>;
}

/** How ranks measure. */
export interface WantedTimes {
  readonly rates: AdapterRates;
  /** Whether spans are kept one by one, not only the sums of kernels. */
  readonly spans: boolean;
}

/** What other ranks measure of the steps whose launches are timed on this one. */
export interface RankTimes {
  /** Ranks, this one among them. */
  readonly size: number;
  /**
   * Has the others ready to take times.
   *
   * @throws {UnsupportedError} when the device of one cannot.
   * @throws {GroupError} when one has left.
   */
  begin(wanted: WantedTimes): Promise<void>;
  /**
   * What they have measured since; they measure nothing any more, also where this fails.
   *
   * @param started What times count from, milliseconds of this rank's `performance.now`.
   * @throws {DeviceError} when one of them has lost its device.
   * @throws {GroupError} when one has left.
   */
  end(started: number): Promise<MeasuredRanks>;
}

export interface MeasuredRanks {
  /** In order. */
  readonly otherRanks: readonly RankSpans[];
  /** Spans beyond those that they keep. */
  readonly omittedSpans: number;
}

export interface StepRunner {
  /** Absent where there are no other ranks. */
  readonly rankTimes?: RankTimes | undefined;
  /**
   * Has the slots of a layer hold other experts: to be awaited between two steps. Absent where ranks
   * cannot. When it fails no step can be computed any more.
   */
  moveExperts?(layer: number, after: readonly number[]): Promise<void>;
  /** Steps that were cut into two micro-batches; absent where none may be. */
  readonly overlappedSteps?: number | undefined;
  /** Records the launches that profiles show: of several ranks, the first one's. */
  readonly recorder: Recorder;
  /** Prompt rows that one step may score beside a sampled row of every sequence. */
  readonly maxScoredRows: number;
  /** What its steps are filled up to; absent where none is, as of attention groups. */
  readonly filledSteps?: FilledSteps;
  /** As `ModelRunner.submit`. */
  submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options?: StepOptions,
  ): Promise<SubmittedStep>;
}
