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
import { DeviceMemory } from "../gpu/memory.ts";
import { Recorder } from "../gpu/recorder.ts";
import type { Batch } from "../layers/batch.ts";
import type { Unshared } from "../layers/ranks/unshared.ts";
import type { ModelDefinition } from "../models/model.ts";
import { absentGroup, type Communicator } from "../parallel/communicator.ts";
import { DescribedPipelines, describedDevice, type DeviceDescription } from "./described_device.ts";
import { StepNotes, type StepWork } from "./step_work.ts";

export interface DescribedModelOptions {
  readonly adapter: DeviceDescription;
  /** Ranks that share the model. */
  readonly ranks: number;
  readonly engine: Omit<EngineOptions, "device">;
}

const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 } as const;

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

  /** Where the memory of a device goes, and what a step computes at most. */
  get sizes(): StartSizes {
    return this.#prepared.startSizes;
  }

  /** One token for each of `sequences`, with `context` tokens in front of it. */
  decode(sequences: number, context: number): Promise<StepWork> {
    const pages = this.#pages(context + 1);
    const rows = Array.from({ length: sequences }, (_, s) => {
      const place = { queryStart: s, queryLength: 1, position: context };
      return { phase: "decode" as const, ...place, pageTable: pages };
    });
    const logitRows = Uint32Array.from({ length: sequences }, (_, s) => s);
    return this.#step({ sequences: rows, sources: new Uint32Array(sequences), logitRows });
  }

  /** `tokens` of a prompt, of which the first `before` are in the cache. */
  prefill(tokens: number, before: number): Promise<StepWork> {
    const place = { queryStart: 0, queryLength: tokens, position: before };
    const pageTable = this.#pages(before + tokens);
    const sequences = [{ phase: "prefill" as const, ...place, pageTable }];
    const logitRows = Uint32Array.of(tokens - 1);
    return this.#step({ sequences, sources: new Uint32Array(tokens), logitRows });
  }

  /** Any pages: nothing is read from them. */
  #pages(tokens: number): readonly number[] {
    const { pageSize } = this.#prepared.options;
    return Array.from({ length: Math.ceil(tokens / pageSize) }, (_, page) => page);
  }

  async #step(batch: Batch): Promise<StepWork> {
    const notes = new StepNotes();
    this.#notes.current = notes;
    const { recorder } = this.#runner;
    recorder.timer = notes;
    const sampled = Array.from(batch.logitRows, () => ({ sampling: GREEDY, position: 0 }));
    await this.#runner.run(batch, sampled);
    recorder.timer = undefined;
    return notes.work(notes.step.rows.length / 4);
  }
}

/** The first of ranks that never meet, whose exchanges need no memory. */
function emptyGroup(size: number): Communicator {
  const nothing = new Uint8Array(0);
  return { ...absentGroup(size), allocate: () => nothing, release: () => {} };
}
