/**
 * Runs batches on the GPU: writes a batch, replays the plan, brings the sampled ids back.
 *
 * @module
 */
import type { KvCache } from "../../cache/kv_cache.ts";
import { KernelError, SpoiledError } from "../../errors.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import { Plan, type Recording } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import { type Batch, EMPTY_STEP, type Step } from "../../layers/batch.ts";
import { isTree, longestOf } from "../../layers/draft_tree.ts";
import { MicroBatches } from "../../layers/micro_batches.ts";
import { groupedRanks, SizesExchange, sumOfGroups } from "../../layers/ranks/group_sizes.ts";
import { StepInputs } from "../../layers/step_tensors.ts";
import type { Model } from "../../models/model.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { AcceptThresholds } from "../../speculation/verify.ts";
import type { LogitRows, SampledRow } from "../sample/sampled_row.ts";
import type { Sampler } from "../sample/sampler.ts";
import { MOST_IN_FLIGHT } from "../schedule/lookahead.ts";
import { type BatchLimits, stepTensorSizes } from "./batch_limits.ts";
import { compileStep, type StepDraftModel } from "./compile_step.ts";
import { ExpertCounter } from "./expert_counter.ts";
import { type FilledSize, FilledSteps } from "./filled_steps.ts";
import { type DraftRequest, draftsIn, StepDrafts } from "./step_drafts.ts";
import { StepRecordings } from "./step_recordings.ts";
import type { StepOptions, StepRunner, SubmittedStep } from "./step_runner.ts";

export interface ModelRunnerOptions extends BatchLimits {
  readonly recorder: Recorder;
  readonly memory: DeviceMemory;
  readonly model: Model;
  readonly cache: KvCache;
  readonly draft?: StepDraftModel | undefined;
  /** Runs prompt rows in the form that generated rows have. */
  readonly oneForm: boolean;
  /** Rows of decode steps whose launches are kept, ascending. */
  readonly buckets: readonly number[];
  /** The ranks that run the same steps. */
  readonly communicator: Communicator;
  /** How coins accept drafts. Default: a draft is right where it is the token that is drawn. */
  readonly thresholds?: AcceptThresholds | undefined;
}

interface PrepareOptions {
  readonly request: DraftRequest | undefined;
  /** Whether the caller looks at all logits. */
  readonly seesAll: boolean;
  /** Whether the caller looks at tensors on the way. */
  readonly isTapped?: boolean;
}

export class ModelRunner implements StepRunner {
  readonly recorder: Recorder;
  /** `[maxLogitRows, logitsStride]` f32, valid until the next step; see `StepOptions.keepsLogits`. */
  readonly logits: Tensor;
  readonly logitsStride: number;
  /** Prompt rows that one step may score beside a sampled row of every sequence. */
  readonly maxScoredRows: number;
  readonly filledSteps: FilledSteps;
  readonly plan: Plan<Step>;
  /** `[maxSequences, logitsStride]` f32 of the first drafts; absent where the model does not draft. */
  readonly draftLogits: Tensor | undefined;
  readonly #inputs: StepInputs;
  /** Absent where no step is cut. */
  readonly #microBatches: MicroBatches | undefined;
  readonly #sampler: Sampler;
  readonly #drafts: StepDrafts | undefined;
  readonly #model: Model;
  /** Why no step can be computed any more. */
  #broken: KernelError | SpoiledError | undefined;
  /** Absent in models without experts. */
  readonly #experts: ExpertCounter | undefined;
  readonly #readback: Readback;
  readonly #splitLength: number;
  readonly #oneForm: boolean;
  readonly #communicator: Communicator;
  readonly #findsBest: boolean;
  readonly #limits: BatchLimits;
  readonly #recordings: StepRecordings;
  readonly #step: Step = { ...EMPTY_STEP };
  /** Where attention groups tell each other what they bring; absent where there is one. */
  readonly #sizes: SizesExchange | undefined;
  /** Whether the step that is recorded is one of other groups alone. */
  #isIdle = false;
  /** Reads the ids of the step recorded last. */
  #read: (() => Promise<ArrayBuffer>) | undefined;

  constructor(options: ModelRunnerOptions) {
    const { recorder, memory, shape, cache, maxLogitRows, maxSampledRows } = options;
    this.recorder = recorder;
    this.maxScoredRows = maxLogitRows - maxSampledRows;
    this.#limits = options;
    this.#recordings = new StepRecordings(options);
    this.plan = new Plan<Step>(recorder);
    this.#splitLength = shape.splitLength;
    this.#oneForm = options.oneForm;
    this.#communicator = options.communicator;
    const groups = groupedRanks(options.communicator);
    this.#sizes = groups && new SizesExchange(groups);
    this.#findsBest = options.model.findsBest;
    this.filledSteps = new FilledSteps(options.buckets, options);
    const inputSizes = stepTensorSizes(options, cache);
    this.#inputs = new StepInputs(recorder.device, memory, inputSizes);
    this.#step.passes = this.#inputs.prefill.passes;
    const { tensors } = this.#inputs;
    this.#microBatches = options.twoBatchOverlap
      ? new MicroBatches(recorder.device, memory, { ...inputSizes, step: tensors })
      : undefined;
    const microBatches = this.#microBatches?.tensors;
    const compiled = compileStep(this.plan, { ...options, inputs: tensors, microBatches });
    this.logits = compiled.logits;
    this.logitsStride = compiled.logitsStride;
    this.#sampler = compiled.sampler;
    const { drafts } = compiled;
    this.draftLogits = drafts?.logits;
    const { maxPages } = inputSizes;
    const maxIds = maxLogitRows + inputSizes.maxDraftIds;
    try {
      this.#drafts = drafts && new StepDrafts(recorder.device, drafts, { ...options, maxPages });
      this.#readback = new Readback(recorder.device, maxIds * 4, MOST_IN_FLIGHT);
    } catch (error) {
      compiled.sampler.destroy();
      throw error;
    }
    this.#model = options.model;
    const { expertHits } = options.model;
    this.#experts = expertHits && new ExpertCounter(this.plan, expertHits);
    this.plan.addVarying(({ logitRows, draft }) => {
      if (this.#isIdle) return;
      const ids = logitRows + (draft?.idCount ?? 0);
      // A step without logits is waited for too, so that steps never pile up on the queue.
      this.#read = this.#readback.record(recorder, tensors.sampled, Math.max(ids, 1) * 4);
    });
  }

  /** The rows that there is memory for, which is allocated for them where it is not there yet. */
  makeRoom(rows: LogitRows): LogitRows | Promise<LogitRows> {
    return this.#sampler.makeRoom(rows);
  }

  async moveExperts(layer: number, after: readonly number[]): Promise<void> {
    try {
      await this.#model.moveExperts?.(this.recorder.device, layer, after);
    } catch (error) {
      // Slots hold what no table says. Where a device is lost, ranks replace theirs and go on.
      if (error instanceof SpoiledError) this.#broken = error;
      else {
        const problem = `they could not be moved: ${(error as Error).message}`;
        this.#broken = new KernelError("experts", problem);
        this.#communicator.abort(this.#broken.message);
      }
      throw error;
    }
  }

  get overlappedSteps(): number | undefined {
    return this.overlappedStepsOf(this.#communicator.attention?.group ?? 0);
  }

  /** Of an attention group, whose steps all ranks know. */
  overlappedStepsOf(group: number): number | undefined {
    return this.#microBatches?.cutStepsOf(group);
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
   * @throws {KernelError} when the batch has too many rows, or drafts are asked for that do not fit it
   * or the model.
   */
  async submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    { scored = [], keepsLogits = false, drafts: request, onExperts, ...options }: StepOptions = {},
  ): Promise<SubmittedStep> {
    if (this.#broken !== undefined) throw this.#broken;
    if (request !== undefined && this.#drafts === undefined) {
      throw new KernelError("drafts", "the model was not loaded to draft");
    }
    try {
      const fitting = this.makeRoom({ sampled: sampling, scored });
      const rows = fitting instanceof Promise ? await fitting : fitting;
      const seesAll = keepsLogits || options.onTap !== undefined;
      const isTapped = options.onTap !== undefined;
      const recording = this.#prepare(batch, rows, { request, seesAll, isTapped });
      await this.#meet(this.#step, onExperts && batch.sources.length);
      await this.plan.run(this.#step, options.onTap === undefined ? { recording } : options);
    } catch (error) {
      throw this.#leaveStep(error);
    }
    const { draft } = this.#step;
    const chosen = this.#experts?.take()?.then(onExperts);
    const results = [this.#read!(), this.#sampler.takeDelivery()?.(), chosen] as const;
    const read = async () => {
      // Nothing is delivered any more once this has failed.
      await Promise.allSettled(results);
      const [ids] = await Promise.all(results);
      return ids;
    };
    const ids = read();
    const drafted = request?.sequences.length ?? 0;
    const drafts = ids.then((all) =>
      draft === undefined ? [] : draftsIn(new Uint32Array(all), draft, drafted),
    );
    const tokens = ids.then((all) => new Uint32Array(all, 0, sampling.length));
    // A caller that takes tokens only is told of a loss by them, and one that has failed meanwhile is
    // told of nothing.
    for (const one of [tokens, drafts]) one.catch(() => {});
    return { tokens, drafts };
  }

  /**
   * Takes part in a step of other attention groups: this rank computes what it has for their rows. What
   * its own steps have left stays, and goes on with the next of them.
   *
   * @param onExperts As in `StepOptions`.
   * @returns `counted`: settles once that is told, where it is wanted.
   */
  async idle(
    onExperts?: StepOptions["onExperts"],
  ): Promise<{ readonly counted: Promise<void> | undefined }> {
    if (this.#broken !== undefined) throw this.#broken;
    const step: Step = { ...EMPTY_STEP };
    this.#isIdle = true;
    try {
      this.#sampler.prepare({ sampled: [], scored: [] });
      this.#microBatches?.write(NO_ROWS, step, { padding: 0, isCut: false, timed: undefined });
      await this.#meet(step, onExperts && 0);
      await this.plan.run(step);
      return { counted: this.#experts?.take()?.then(onExperts) };
    } catch (error) {
      throw this.#leaveStep(error);
    } finally {
      this.#isIdle = false;
    }
  }

  /**
   * Has the step know what other groups bring to it, and experts count as many rows.
   *
   * @param counted Rows of its own, without padding; undefined where it is not counted.
   */
  async #meet(step: Step, counted: number | undefined): Promise<void> {
    const groups = await this.#sizes?.meet(step);
    step.groups = groups;
    this.#microBatches?.meet(step);
    const cut = step.microBatches?.[1].place?.first;
    // Every rank chooses the experts of the rows of all groups.
    const all = (name: "rows" | "firstRows", own: number) =>
      groups === undefined ? own : sumOfGroups(groups, name);
    this.#experts?.begin(
      counted === undefined ? undefined : all("rows", counted),
      cut === undefined ? undefined : all("firstRows", cut),
    );
  }

  #leaveStep(error: unknown): unknown {
    this.plan.recorder.abandon();
    // Other ranks would wait for this rank's part of the step.
    this.#communicator.abort(`its step failed: ${(error as Error).message}`);
    return error;
  }

  /** Launches that a batch records, by part of the model. Runs the batch. */
  async countLaunches(
    batch: Batch,
    sampling: readonly SampledRow[],
    request?: DraftRequest,
  ): Promise<ReadonlyMap<string, number>> {
    this.#prepare(batch, { sampled: sampling, scored: [] }, { request, seesAll: false });
    const counts = await this.plan.countLaunches(this.#step);
    await this.#read!();
    return counts;
  }

  #prepare(
    given: Batch,
    logitRows: LogitRows,
    { request, seesAll, isTapped = false }: PrepareOptions,
  ): Recording | undefined {
    const step = this.#step;
    const batch = this.#oneForm ? asGenerated(given) : given;
    const rows = batch.sources.length;
    const bucket = this.#bucketFor(given);
    const padding = (bucket?.rows ?? rows) - rows;
    step.rows = rows + padding;
    step.logitRows = batch.logitRows.length + padding;
    step.decodeRows = padding;
    step.decodesOne = true;
    step.hasTrees = false;
    step.continues = false;
    for (const sequence of batch.sequences) {
      const { phase, queryLength, continues } = sequence;
      if (phase === "prefill") continue;
      step.decodeRows += queryLength;
      step.decodesOne &&= queryLength <= 1 && !isTree(sequence);
      step.hasTrees ||= isTree(sequence);
      step.continues ||= continues !== undefined;
    }
    this.#requireRoom(step);
    step.decodeSplits = Math.ceil(longestOf(batch) / this.#splitLength);
    this.#inputs.write(batch, padding);
    step.decodeGroups = this.#inputs.groupCount;
    const { timer } = this.recorder;
    if (timer !== undefined) timer.step = this.#inputs.arrays(step);
    const onlyBest = this.#sampler.prepare(logitRows);
    step.onlyBest = onlyBest && !seesAll && this.#findsBest;
    if (step.continues) this.#continue(batch, step.draft, padding);
    step.draft = this.#drafts?.prepare(batch, request, {
      sampled: logitRows.sampled,
      padding: { rows: padding, sequences: bucket?.sequences ?? 0 },
      findsBest: !seesAll && this.#findsBest,
      passes: this.#inputs.draftPrefill?.passes,
    });
    // A tensor is looked at once.
    const cutting = { padding, isCut: !isTapped, timed: timer && this.#inputs.arrays(step) };
    this.#microBatches?.write(batch, step, cutting);
    return bucket === undefined ? undefined : this.#recordings.of(step);
  }

  /** @throws {KernelError} when the step has more rows than its tensors. */
  #requireRoom({ rows, decodeRows }: Step): void {
    const { maxRows, maxSampledRows } = this.#limits;
    const maxDecodeRows = this.#oneForm ? maxRows : maxSampledRows;
    if (rows <= maxRows && decodeRows <= maxDecodeRows) return;
    const most = `at most ${maxRows} and ${maxDecodeRows}`;
    throw new KernelError("step", `${rows} rows, ${decodeRows} of them generated, of ${most}`);
  }

  /** @param before What the step before did for drafts. */
  #continue(batch: Batch, before: Step["draft"], padding: number): void {
    if (this.#drafts === undefined) {
      throw new KernelError("drafts", "the model was not loaded to draft");
    }
    this.#drafts.continue(batch, before, padding);
  }

  /** What a batch is filled up to; undefined where its launches are recorded as they come. */
  #bucketFor({ sequences, sources, logitRows }: Batch): FilledSize | undefined {
    const rows = sources.length;
    if (logitRows.length !== rows) return undefined;
    let longest = 1;
    for (const { phase, queryLength } of sequences) {
      if (phase === "prefill") return undefined;
      longest = Math.max(longest, queryLength);
    }
    return this.filledSteps.of({ sequences: sequences.length, rows, longest });
  }

  destroy(): void {
    this.#readback.destroy();
    this.#experts?.destroy();
    this.#sampler.destroy();
    this.recorder.destroy();
  }
}

const NO_IDS = new Uint32Array();
const NO_ROWS: Batch = { sequences: [], sources: NO_IDS, logitRows: NO_IDS };

/** The same rows, none of them a prompt's. */
function asGenerated(batch: Batch): Batch {
  const sequences = batch.sequences.map((one) => ({ ...one, phase: "decode" as const }));
  return { ...batch, sequences };
}
