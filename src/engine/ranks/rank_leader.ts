/**
 * The first rank of a group whose other ranks are elsewhere, in processes of their own: it schedules
 * for all of them, and sends each step as plain data before it computes its own part of it.
 *
 * @module
 */

import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { modelHash } from "../../checkpoint/model_hash.ts";
import { UnsupportedError } from "../../errors.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Batch } from "../../layers/batch.ts";
import { agree } from "../../parallel/agree.ts";
import { inAttentionGroups } from "../../parallel/attention_groups.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { RankStatus } from "../../ranks_status.ts";
import { type LoadedModel, loadModel } from "../load/load.ts";
import type { LoadOptions } from "../load/load_options.ts";
import type { SampledRow } from "../sample/sampled_row.ts";
import type { FilledSteps } from "../step/filled_steps.ts";
import type { StepOptions, StepRunner, SubmittedStep } from "../step/step_runner.ts";
import type { EngineModel } from "./engine_model.ts";
import { LedGroup, LedModel } from "./led_group.ts";
import { LedTimes } from "./led_times.ts";
import { OrderWriter } from "./order_writer.ts";
import { ledMovers, PageLeader } from "./page_leader.ts";
import { type RankLoading, sumOfRanks } from "./rank_group.ts";
import { LeavingCommunicator, type RankLink } from "./rank_link.ts";
import type { RankOrder } from "./rank_orders.ts";

/** A group of ranks that an engine on the first of them leads. */
export interface LedRanks {
  /** What that engine is loaded with: its model is one whose other ranks follow it. */
  readonly options: Pick<LoadOptions, "communicator"> & Required<RankLoading>;
  /**
   * Tells the other ranks that there is nothing left to do, once they have done what they do now: a
   * device may be on its way to being replaced.
   *
   * @throws {GroupError} when one of them has left before.
   */
  end(): Promise<void>;
}

export function ledRanks(link: RankLink): LedRanks {
  const group = new LedGroup(link);
  return {
    options: {
      communicator: link.communicator,
      loadRanks: (checkpoint, options) => loadLeader(checkpoint, group, options),
    },
    end: () => group.inTurn(() => group.send({ type: "end" })),
  };
}

/**
 * Loads this rank's part of a model whose other ranks `loadFollower` loads. The caller, once it
 * has destroyed the model, tells them that the work is done (`LedRanks.end`), or leaves their group.
 *
 * @throws {UnsupportedError} naming an option that only ranks of one process can do.
 * @throws As `loadModel`.
 */
async function loadLeader(
  checkpoint: Checkpoint,
  group: LedGroup,
  options: LoadOptions,
): Promise<EngineModel> {
  const model = await loadFirst(checkpoint, group, options);
  const leader = new RankLeader(model);
  return {
    ...model.loaded,
    ...ledMovers(model, leader.pages),
    devices: [model.loaded.device],
    runner: leader,
    lost: model.lost,
    abandon: (reason) => group.link.communicator.abort(reason),
    destroy: () => {
      leader.pages.isGone = true;
      model.isLeft = true;
      model.loaded.destroy();
    },
  };
}

/**
 * The first rank's part, in a group of ranks that attend in so many groups.
 *
 * @throws As `loadLeader`.
 */
export async function loadFirst(
  checkpoint: Checkpoint,
  group: LedGroup,
  { attentionGroups = 1, ...asked }: LoadOptions,
): Promise<LedModel> {
  requireOrdersSuffice(asked);
  const leaving = new LeavingCommunicator(group.link.communicator);
  const communicator = inAttentionGroups(leaving.communicator, attentionGroups);
  const options = { ...asked, attentionGroups, communicator };
  const loaded = group.isLoaded
    ? await loadAgain(checkpoint, group, options)
    : await loadAlike(checkpoint, options);
  group.isLoaded = true;
  const destroy = () => {
    leaving.isInOrder = true;
    loaded.destroy();
  };
  return new LedModel({ ...loaded, destroy }, group, communicator);
}

/** @throws {UnsupportedError} for what an order cannot say yet. */
function requireOrdersSuffice({ tensorParallelSize: field }: LoadOptions): void {
  if (field === undefined) return;
  const reason = "the group says how many ranks there are";
  throw new UnsupportedError("tensorParallelSize", reason, { field: "tensorParallelSize" });
}

/**
 * Loads on another device, and has all other ranks do the same: no page of any is of use any more.
 *
 * @throws What the device's factory throws, and the group goes on; anything else ends it.
 */
async function loadAgain(
  checkpoint: Checkpoint,
  group: LedGroup,
  options: LoadOptions & { readonly communicator: Communicator },
): Promise<LoadedModel> {
  const { link } = group;
  // Ranks load alike: once they have begun, none of them gives it up.
  const { device, signal, ...others } = options;
  const next = typeof device === "function" ? await device(0) : device;
  let hasBegun = false;
  try {
    return await group.inTurn(async () => {
      signal?.throwIfAborted();
      hasBegun = true;
      await group.send({ type: "reload" });
      const load = () => loadAlike(checkpoint, { ...others, device: async () => next });
      return (link.whileLoading ?? ((work) => work()))(load);
    });
  } catch (error) {
    if (hasBegun)
      link.communicator.abort(`it could not load the model again: ${(error as Error).message}`);
    throw error;
  }
}

/**
 * Loads a rank's part of a model, of which no other rank can see what it was loaded from.
 *
 * @throws {GroupError} on every rank, when one of them has another checkpoint or computes in another
 * class.
 */
export async function loadAlike(
  checkpoint: Checkpoint,
  options: LoadOptions & { readonly communicator: Communicator },
): Promise<LoadedModel> {
  const { communicator } = options;
  await agree(communicator, "what they load", { checkpoint: await modelHash(checkpoint) });
  const loaded = await loadModel(checkpoint, options);
  const { prefill, decode } = loaded.figures.numericClasses;
  try {
    await agree(communicator, "numeric classes", { prefill, decode });
    const ranks = await memoryOfRanks(communicator, loaded.figures);
    return { ...loaded, figures: { ...loaded.figures, ...sumOfRanks(ranks) } };
  } catch (error) {
    loaded.destroy();
    throw error;
  }
}

/** What each rank holds. */
async function memoryOfRanks(
  { size, ...group }: Communicator,
  { weightBytes, cacheBytes }: LoadedModel["figures"],
): Promise<readonly RankStatus[]> {
  const own = new Uint8Array(Float64Array.of(weightBytes, cacheBytes).buffer);
  const all = new Float64Array(2 * size);
  const exchange = { name: "memory of ranks", counts: Array<number>(size).fill(own.length) };
  await group.allGather(own, new Uint8Array(all.buffer), exchange);
  return Array.from({ length: size }, (_, of) => {
    return { rank: of, weightBytes: all[2 * of]!, cacheBytes: all[2 * of + 1]! };
  });
}

class RankLeader implements StepRunner {
  readonly pages: PageLeader;
  readonly rankTimes: LedTimes;
  readonly #model: LedModel;
  readonly #writer: OrderWriter;
  /** What the others have not been told of, and the wait for more. */
  #drawn: Uint32Array[] = [];
  #drawing: Promise<void> = Promise.resolve();

  constructor(model: LedModel) {
    const { loaded, group, communicator } = model;
    this.#model = model;
    this.pages = new PageLeader(model, { first: 0, count: communicator.size });
    this.rankTimes = new LedTimes(communicator, group);
    this.#writer = new OrderWriter(loaded.options.maxRunningRequests);
  }

  get recorder(): Recorder {
    return this.#model.loaded.runner.recorder;
  }

  get overlappedSteps(): number | undefined {
    return this.#model.loaded.runner.overlappedSteps;
  }

  get maxScoredRows(): number {
    return this.#model.loaded.runner.maxScoredRows;
  }

  get filledSteps(): FilledSteps {
    return this.#model.loaded.runner.filledSteps;
  }

  moveExperts(layer: number, after: readonly number[]): Promise<void> {
    return this.#model.moveExperts(layer, after);
  }

  /** Resolves when the step is on this rank's queue, and with the others. */
  submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions = {},
  ): Promise<SubmittedStep> {
    const work = () => this.#submit(batch, sampling, options);
    return this.#model.together(work, "its step failed");
  }

  async #submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions,
  ): Promise<SubmittedStep> {
    const { scored = [], drafts } = options;
    const { runner } = this.#model.loaded;
    const sampled = sampling.map(withoutProcessor);
    const rows = await runner.makeRoom({ sampled, scored });
    const copies = this.pages.takeCopies();
    const drawn = this.#drawn;
    this.#drawn = [];
    const step = this.#writer.write({ batch, rows, drafts });
    await sendStep(this.#model, (isTimed) => ({ type: "step", isTimed, copies, drawn, ...step }));
    const own = { ...options, scored: rows.scored };
    const submitted = await runner.submit(batch, rows.sampled, own);
    // In the order of the steps, though a later one may be delivered first.
    this.#drawing = this.#drawing
      .then(() => submitted.tokens)
      .then((tokens) => {
        this.#drawn.push(tokens);
      });
    this.#drawing.catch((error: Error) => this.#model.endUnlessLost(error));
    return submitted;
  }
}

/** Sends a step, in a profile as part of it. */
export function sendStep(
  { loaded, group }: LedModel,
  order: (isTimed: boolean) => RankOrder,
): Promise<void> {
  const { timer } = loaded.runner.recorder;
  const send = () => group.send(order(timer !== undefined));
  return timer === undefined ? send() : timer.exchange("an order", send);
}

/** A function cannot go to another process: its request ends, and no other. */
export function withoutProcessor(row: SampledRow): SampledRow {
  if (row.processor === undefined) return row;
  const field = "logitProcessors";
  row.fail?.(new UnsupportedError(field, "the ranks of this engine are processes", { field }));
  return { ...row, processor: undefined };
}
