/**
 * Runs batches on the GPU: writes a batch, replays the plan, brings the sampled ids back.
 *
 * @module
 */
import type { KvCache } from "../../cache/kv_cache.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import { Plan, Recording, type RunOptions } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import { type Batch, EMPTY_STEP, type Step } from "../../layers/batch.ts";
import { keysSeen } from "../../layers/draft_tree.ts";
import { StepInputs } from "../../layers/step_tensors.ts";
import type { Model } from "../../models/model.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { LogitRows, SampledRow, ScoredRow } from "../sample/sampled_row.ts";
import type { Sampler } from "../sample/sampler.ts";
import { MOST_IN_FLIGHT } from "../schedule/lookahead.ts";
import { type BatchLimits, stepTensorSizes } from "./batch_limits.ts";
import { compileStep } from "./compile_step.ts";

export interface ModelRunnerOptions extends BatchLimits {
  readonly recorder: Recorder;
  readonly memory: DeviceMemory;
  readonly model: Model;
  readonly cache: KvCache;
  /** Runs prompt rows in the form that generated rows have. */
  readonly oneForm: boolean;
  /** Rows of decode steps whose launches are kept, ascending. */
  readonly buckets: readonly number[];
  /** The ranks that run the same steps. */
  readonly communicator: Communicator;
}

export interface StepOptions extends RunOptions {
  /** Prompt rows to score, whose logit rows come after those that are sampled. */
  readonly scored?: readonly ScoredRow[];
  /** Whether `logits` are wanted even where the sampled ids need only the best of each row. */
  readonly keepsLogits?: boolean;
}

type KeptStep = Pick<Step, "decodeSplits" | "onlyBest">;

export class ModelRunner {
  readonly recorder: Recorder;
  /** `[maxLogitRows, logitsStride]` f32, valid until the next step; see `StepOptions.keepsLogits`. */
  readonly logits: Tensor;
  readonly logitsStride: number;
  /** Prompt rows that one step may score beside a sampled row of every sequence. */
  readonly maxScoredRows: number;
  readonly plan: Plan<Step>;
  readonly #inputs: StepInputs;
  readonly #sampler: Sampler;
  readonly #readback: Readback;
  readonly #splitLength: number;
  readonly #oneForm: boolean;
  readonly #communicator: Communicator;
  readonly #findsBest: boolean;
  readonly #buckets: readonly number[];
  /** By rows: the launches kept for so many, with what else of a step they are for. */
  readonly #recordings = new Map<number, { readonly step: KeptStep; recording: Recording }>();
  readonly #step: Step = { ...EMPTY_STEP };
  /** Reads the ids of the step recorded last. */
  #read: (() => Promise<ArrayBuffer>) | undefined;

  constructor(options: ModelRunnerOptions) {
    const { recorder, memory, shape, cache, maxRows, maxLogitRows, maxSequences } = options;
    this.recorder = recorder;
    this.maxScoredRows = maxLogitRows - maxSequences;
    this.plan = new Plan<Step>(recorder);
    this.#splitLength = shape.splitLength;
    this.#oneForm = options.oneForm;
    this.#communicator = options.communicator;
    this.#findsBest = options.model.findsBest;
    this.#buckets = options.buckets.filter((size) => size <= Math.min(maxSequences, maxRows));
    const inputSizes = stepTensorSizes(options, cache);
    this.#inputs = new StepInputs(recorder.device, memory, inputSizes);
    this.#step.passes = this.#inputs.prefill.passes;
    const { tensors } = this.#inputs;
    const compiled = compileStep(this.plan, { ...options, inputs: tensors });
    this.logits = compiled.logits;
    this.logitsStride = compiled.logitsStride;
    this.#sampler = compiled.sampler;
    this.#readback = new Readback(recorder.device, maxLogitRows * 4, MOST_IN_FLIGHT);
    this.plan.addVarying(({ logitRows }) => {
      // A step without logits is waited for too, so that steps never pile up on the queue.
      this.#read = this.#readback.record(recorder, tensors.sampled, Math.max(logitRows, 1) * 4);
    });
  }

  /** Computes one step: `submit`, and the wait for its ids. */
  async run(
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions = {},
  ): Promise<Uint32Array> {
    const { tokens } = await this.submit(batch, sampling, options);
    return tokens;
  }

  /**
   * Gives one step to the GPU; resolves when all of it is on the queue. The next may follow at once,
   * up to `MOST_IN_FLIGHT`, and may start rows from ids that this one samples.
   *
   * @param sampling How each logit row is sampled, in order.
   * @returns `tokens`, the sampled ids, once the GPU has finished the step and the log-probabilities
   * that rows ask for are delivered; rejects with a DeviceError when the device is lost.
   */
  async submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    { scored = [], keepsLogits = false, ...options }: StepOptions = {},
  ): Promise<{ readonly tokens: Promise<Uint32Array> }> {
    const fitting = this.#sampler.makeRoom({ sampled: sampling, scored });
    const rows = fitting instanceof Promise ? await fitting : fitting;
    const seesAll = keepsLogits || options.onTap !== undefined;
    const recording = this.#prepare(batch, rows, seesAll);
    try {
      await this.plan.run(this.#step, options.onTap === undefined ? { recording } : options);
    } catch (error) {
      // Other ranks would wait for this rank's part of the step.
      this.#communicator.abort(`its step failed: ${(error as Error).message}`);
      throw error;
    }
    const results = [this.#read!(), this.#sampler.takeDelivery()?.()] as const;
    const read = async () => {
      // Nothing is delivered any more once this has failed.
      await Promise.allSettled(results);
      const [ids] = await Promise.all(results);
      return new Uint32Array(ids, 0, sampling.length);
    };
    return { tokens: read() };
  }

  /** Launches that a batch records, by part of the model. Runs the batch. */
  async countLaunches(
    batch: Batch,
    sampling: readonly SampledRow[],
  ): Promise<ReadonlyMap<string, number>> {
    this.#prepare(batch, { sampled: sampling, scored: [] }, false);
    const counts = await this.plan.countLaunches(this.#step);
    await this.#read!();
    return counts;
  }

  #prepare(given: Batch, logitRows: LogitRows, seesAll: boolean): Recording | undefined {
    const step = this.#step;
    const batch = this.#oneForm ? asGenerated(given) : given;
    const rows = batch.sources.length;
    const bucket = this.#bucketFor(given);
    const padding = (bucket ?? rows) - rows;
    step.rows = rows + padding;
    step.logitRows = batch.logitRows.length + padding;
    step.decodeRows = padding;
    step.decodesOne = true;
    step.hasTrees = false;
    let longest = 1;
    for (const sequence of batch.sequences) {
      const { phase, queryLength, tree } = sequence;
      if (phase === "prefill") continue;
      step.decodeRows += queryLength;
      step.decodesOne &&= queryLength <= 1 && tree === undefined;
      step.hasTrees ||= tree !== undefined;
      longest = Math.max(longest, keysSeen(sequence));
    }
    step.decodeSplits = Math.ceil(longest / this.#splitLength);
    this.#inputs.write(batch, padding);
    step.decodeGroups = this.#inputs.groupCount;
    const { timer } = this.recorder;
    if (timer !== undefined) timer.step = this.#inputs.arrays(step);
    const onlyBest = this.#sampler.prepare(logitRows);
    step.onlyBest = onlyBest && !seesAll && this.#findsBest;
    return bucket === undefined ? undefined : this.#recordingFor(step);
  }

  /** Rows that a batch is filled up to; undefined where its launches are recorded as they come. */
  #bucketFor({ sequences, sources, logitRows }: Batch): number | undefined {
    const isDecode = sequences.every(({ phase, queryLength, tree }) => {
      return phase === "decode" && queryLength === 1 && tree === undefined;
    });
    const isSampled = sources.length > 0 && logitRows.length === sources.length;
    if (!isDecode || !isSampled) return undefined;
    return this.#buckets.find((size) => size >= sources.length);
  }

  /** The launches kept for a step of these sizes. */
  #recordingFor({ rows, decodeSplits, onlyBest }: Step): Recording {
    const known = this.#recordings.get(rows);
    if (known?.step.decodeSplits === decodeSplits && known.step.onlyBest === onlyBest) {
      return known.recording;
    }
    const recording = new Recording();
    this.#recordings.set(rows, { step: { decodeSplits, onlyBest }, recording });
    return recording;
  }

  destroy(): void {
    this.#readback.destroy();
    this.#sampler.destroy();
    this.recorder.destroy();
  }
}

/** The same rows, none of them a prompt's. */
function asGenerated(batch: Batch): Batch {
  const sequences = batch.sequences.map((one) => ({ ...one, phase: "decode" as const }));
  return { ...batch, sequences };
}
