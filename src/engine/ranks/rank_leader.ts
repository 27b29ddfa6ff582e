/**
 * The first rank of a group whose other ranks are elsewhere, in processes of their own: it schedules
 * for all of them, and sends each step as plain data before it computes its own part of it.
 *
 * @module
 */
import type { PageCopy } from "../../cache/page_copier.ts";
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { modelHash } from "../../checkpoint/model_hash.ts";
import { DeviceError, SpoiledError, UnsupportedError } from "../../errors.ts";
import { lossOf } from "../../gpu/device.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { Batch } from "../../layers/batch.ts";
import { agree } from "../../parallel/agree.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { RankStatus } from "../../ranks_status.ts";
import { pageCarrier } from "../draft_model/draft_pages.ts";
import { type LoadedModel, loadModel } from "../load/load.ts";
import type { LoadOptions } from "../load/load_options.ts";
import type { SampledRow } from "../sample/sampled_row.ts";
import type { StepOptions, StepRunner, SubmittedStep } from "../step/step_runner.ts";
import type { EngineModel } from "./engine_model.ts";
import { LedGroup } from "./led_group.ts";
import { type ByteExchanges, LedPages, ledCarrier, type PagesLeader } from "./led_pages.ts";
import { LedTimes } from "./led_times.ts";
import { OrderWriter } from "./order_writer.ts";
import { haveMoved, requireMoved, type SharedOutcome, shareOutcome } from "./page_outcomes.ts";
import { type RankLoading, sumOfRanks } from "./rank_group.ts";
import { LeavingCommunicator, type RankLink } from "./rank_link.ts";
import type { PagesTask } from "./rank_orders.ts";

type Loss = Pick<GPUDeviceLostInfo, "message" | "reason">;

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
  requireOrdersSuffice(options);
  const leaving = new LeavingCommunicator(group.link.communicator);
  const { communicator } = leaving;
  const loaded = group.isLoaded
    ? await loadAgain(checkpoint, group, { ...options, communicator })
    : await loadAlike(checkpoint, { ...options, communicator });
  group.isLoaded = true;
  const leader = new RankLeader(loaded, group, communicator);
  const { copier, codec, draftPages: draft } = loaded;
  return {
    ...loaded,
    devices: [loaded.device],
    runner: leader,
    copier: copier && { copy: (copies) => leader.copy(copies) },
    codec: codec && new LedPages(codec, leader),
    retracted:
      codec &&
      ledCarrier(
        pageCarrier(() => ({ codec, draft })),
        leader,
        group,
      ),
    lost: leader.lost,
    abandon: (reason) => group.link.communicator.abort(reason),
    destroy: () => {
      leaving.isInOrder = true;
      leader.isGone = true;
      loaded.destroy();
    },
  };
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

class RankLeader implements StepRunner, PagesLeader {
  readonly communicator: Communicator;
  readonly rankTimes: LedTimes;
  /** Resolves when this rank's device is lost, or another one tells that its own is. */
  readonly lost: Promise<Loss>;
  /** Whether the model is not there any more. */
  isGone = false;
  readonly #loaded: LoadedModel;
  readonly #group: LedGroup;
  readonly #writer: OrderWriter;
  #tellLoss: (loss: Loss) => void = () => {};
  #copies: PageCopy[] = [];
  /** What the others have not been told of, and the wait for more. */
  #drawn: Uint32Array[] = [];
  #drawing: Promise<void> = Promise.resolve();

  constructor(loaded: LoadedModel, group: LedGroup, communicator: Communicator) {
    this.communicator = communicator;
    this.rankTimes = new LedTimes(communicator, group);
    this.#loaded = loaded;
    this.#group = group;
    this.#writer = new OrderWriter(loaded.options.maxRunningRequests);
    const told = new Promise<Loss>((resolve) => {
      this.#tellLoss = resolve;
    });
    this.lost = Promise.race([loaded.device.lost, told]);
  }

  get recorder(): Recorder {
    return this.#loaded.runner.recorder;
  }

  get overlappedSteps(): number | undefined {
    return this.#loaded.runner.overlappedSteps;
  }

  get maxScoredRows(): number {
    return this.#loaded.runner.maxScoredRows;
  }

  /** The others copy these pages too, before the next step. */
  copy(copies: readonly PageCopy[]): void {
    for (const one of copies) this.#copies.push(one);
    this.#loaded.copier!.copy(copies);
  }

  /** Every rank moves them, with the bytes of the rank that has each. */
  async moveExperts(layer: number, after: readonly number[]): Promise<void> {
    try {
      await this.#group.inTurn(async () => {
        await this.#group.send({ type: "move experts", layer, after });
        await this.#loaded.runner.moveExperts(layer, after);
      });
    } catch (error) {
      if (error instanceof SpoiledError) throw this.#lossBy(error);
      this.communicator.abort(`its experts did not move: ${(error as Error).message}`);
      throw error;
    }
  }

  /** Resolves when the step is on this rank's queue, and with the others. */
  async submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions = {},
  ): Promise<SubmittedStep> {
    try {
      return await this.#group.inTurn(() => this.#submit(batch, sampling, options));
    } catch (error) {
      if (error instanceof SpoiledError) throw this.#lossBy(error);
      // The others wait for the next order, or for this rank's part of the step.
      this.communicator.abort(`its step failed: ${(error as Error).message}`);
      throw error;
    }
  }

  async #submit(
    batch: Batch,
    sampling: readonly SampledRow[],
    options: StepOptions,
  ): Promise<SubmittedStep> {
    const { scored = [], drafts } = options;
    const { runner } = this.#loaded;
    const sampled = sampling.map(withoutProcessor);
    const rows = await runner.makeRoom({ sampled, scored });
    const [copies, drawn] = [this.#copies, this.#drawn];
    this.#copies = [];
    this.#drawn = [];
    const step = this.#writer.write({ batch, rows, drafts });
    const { timer } = this.recorder;
    const isTimed = timer !== undefined;
    const send = () => this.#group.send({ type: "step", isTimed, copies, drawn, ...step });
    await (timer === undefined ? send() : timer.exchange("an order", send));
    const own = { ...options, scored: rows.scored };
    const submitted = await runner.submit(batch, rows.sampled, own);
    // In the order of the steps, though a later one may be delivered first.
    this.#drawing = this.#drawing
      .then(() => submitted.tokens)
      .then((tokens) => {
        this.#drawn.push(tokens);
      });
    this.#drawing.catch((error: Error) => this.#endUnlessLost(error));
    return submitted;
  }

  async lead<T>(
    task: PagesTask,
    own: () => Promise<T>,
    exchanges: ByteExchanges<T> = {},
  ): Promise<T> {
    let outcome: SharedOutcome<T>;
    try {
      outcome = await this.#group.inTurn(() => this.#lead(task, own, exchanges));
    } catch (error) {
      // The others wait for what is exchanged next.
      this.communicator.abort(`its pages did not move: ${(error as Error).message}`);
      throw error;
    }
    try {
      return requireMoved(outcome);
    } catch (error) {
      if (error instanceof DeviceError) this.#lossBy(error);
      throw error;
    }
  }

  async #lead<T>(
    task: PagesTask,
    own: () => Promise<T>,
    { before, behind }: ByteExchanges<T>,
  ): Promise<SharedOutcome<T>> {
    if (this.isGone) {
      // The others would move pages of the next model.
      const reason = new DeviceError("Cannot move cache pages: the device is lost");
      return { own: { status: "rejected", reason }, all: new Uint8Array(0) };
    }
    const copies = this.#copies;
    this.#copies = [];
    const released = this.#group.takeReleased();
    await this.#group.send({ ...task, copies, released });
    await before?.();
    const outcome = await shareOutcome(this.communicator, this.#loaded.device, own);
    if (behind === undefined || !haveMoved(outcome)) return outcome;
    const value = await behind((outcome.own as PromiseFulfilledResult<T>).value);
    return { ...outcome, own: { status: "fulfilled", value } };
  }

  /** A device is lost, this rank's or another one's. */
  #lossBy(cause: Error): DeviceError {
    const { message } = cause;
    this.#tellLoss({ message, reason: "unknown" });
    return cause instanceof DeviceError ? cause : new DeviceError(message, { cause });
  }

  /**
   * No step of ranks that are processes is computed again while their devices are there: the others are
   * not to wait for the next.
   */
  async #endUnlessLost({ message }: Error): Promise<void> {
    if ((await lossOf(this)) !== undefined) return;
    this.communicator.abort(`its step failed: ${message}`);
  }
}

/** A function cannot go to another process: its request ends, and no other. */
function withoutProcessor(row: SampledRow): SampledRow {
  if (row.processor === undefined) return row;
  const field = "logitProcessors";
  row.fail?.(new UnsupportedError(field, "the ranks of this engine are processes", { field }));
  return { ...row, processor: undefined };
}
