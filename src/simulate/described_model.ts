/**
 * A model on one of several ranks, laid out for a device that is only described: what it holds there, and
 * what its steps have to do.
 *
 * @module
 */
import { DEFAULT_LAYOUT, layoutFor } from "../../kernels/linear/weights/layout.ts";
import { KvCache } from "../cache/kv_cache.ts";
import { Checkpoint } from "../checkpoint/checkpoint.ts";
import type { WeightSource } from "../checkpoint/source.ts";
import type { EngineOptions } from "../engine/engine_options.ts";
import { type PreparedLoad, prepareLoad } from "../engine/load/prepare_load.ts";
import type { StartSizes } from "../engine/load/start_sizes.ts";
import { ModelRunner } from "../engine/step/model_runner.ts";
import { rowsOf } from "../gpu/launch_cost.ts";
import { DeviceMemory } from "../gpu/memory.ts";
import { Recorder } from "../gpu/recorder.ts";
import type { Unshared } from "../layers/ranks/unshared.ts";
import type { ModelDefinition } from "../models/model.ts";
import { absentGroup, type Communicator } from "../parallel/communicator.ts";
import { DescribedPipelines, type DeviceDescription, describedDevice } from "./described_device.ts";
import { decodeBatch, prefillBatch, type SizedBatch } from "./step_batches.ts";
import { StepNotes, type StepWork } from "./step_work.ts";

interface DescribedModelOptions {
  readonly adapter: DeviceDescription;
  /** Ranks that share the model. */
  readonly ranks: number;
  readonly engine: Omit<EngineOptions, "device">;
}

export class DescribedModel {
  readonly #prepared: PreparedLoad;
  readonly #runner: ModelRunner;
  readonly #notes: { current: StepNotes };
  /** What every rank holds and computes whole. */
  readonly unshared: readonly Unshared[];

  private constructor(
    prepared: PreparedLoad,
    runner: ModelRunner,
    given: { readonly notes: { current: StepNotes }; readonly unshared: readonly Unshared[] },
  ) {
    this.#prepared = prepared;
    this.#runner = runner;
    this.#notes = given.notes;
    this.unshared = given.unshared;
  }

  /**
   * Decides everything that a start decides, by the same functions.
   *
   * @throws {CheckpointError | UnsupportedError} naming what is wrong with the checkpoint.
   * @throws {InvalidRequestError} naming an option that is out of range.
   * @throws {DeviceError} with figures when the model does not fit.
   */
  static async open(source: WeightSource, options: DescribedModelOptions): Promise<DescribedModel> {
    const notes = { current: new StepNotes() };
    const device = describedDevice(options.adapter, (bytes) => notes.current.copied(bytes));
    const communicator = emptyGroup(options.ranks);
    const given = { ...options.engine, device, communicator };
    const prepared = await prepareLoad(await Checkpoint.open(source), given);
    const { limits, sizes, cacheShape, memoryBudget, oneForm } = prepared;
    const recorder = new Recorder(device, { pipelines: new DescribedPipelines(device) });
    const memory = new DeviceMemory(limits);
    const layout =
      options.engine.tunedKernels === false ? DEFAULT_LAYOUT : layoutFor(device, prepared.tuning);
    const model = prepared.create({ memory, layout });
    const runner = new ModelRunner({
      ...sizes,
      recorder,
      memory,
      model,
      cache: new KvCache(device, cacheShape, memoryBudget.cacheTokens),
      oneForm,
      communicator,
      buckets: prepared.options.decodeBuckets,
    });
    return new DescribedModel(prepared, runner, { notes, unshared: model.unshared });
  }

  get definition(): ModelDefinition {
    return this.#prepared.definition;
  }

  /** Tokens that a sequence may have. */
  get contextLength(): number {
    return this.#prepared.sizes.contextLength;
  }

  /** Where the memory of a device goes, and what a step computes at most. */
  get sizes(): StartSizes {
    return this.#prepared.startSizes;
  }

  /** One token for each of `sequences`, with `context` tokens in front of it. */
  decode(sequences: number, context: number): Promise<StepWork> {
    return this.#step(decodeBatch(sequences, context, this.#prepared.options.pageSize));
  }

  /** `tokens` of a prompt, with `before` tokens in the cache. */
  prefill(tokens: number, before: number): Promise<StepWork> {
    return this.#step(prefillBatch(tokens, before, this.#prepared.options.pageSize));
  }

  async #step({ batch, sampled }: SizedBatch): Promise<StepWork> {
    const notes = new StepNotes();
    this.#notes.current = notes;
    const { recorder } = this.#runner;
    recorder.timer = notes;
    await this.#runner.run(batch, sampled);
    recorder.timer = undefined;
    return notes.work(rowsOf(notes.step));
  }
}

/** The first of ranks that never meet, whose exchanges need no memory. */
function emptyGroup(size: number): Communicator {
  const nothing = new Uint8Array(0);
  return { ...absentGroup(size), allocate: () => nothing, release: () => {} };
}
