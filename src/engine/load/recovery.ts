/**
 * The model that an engine runs, and how it comes onto another device when its own is lost.
 *
 * Devices go without notice: a driver starts again, a browser ends its GPU process, a machine sleeps.
 * Where a factory opens devices, the checkpoint is read again onto the next one and laid out as it was.
 * What the GPU held is gone; the step loop has to compute it again.
 *
 * Tries are numbered since the last token that a step sampled, since the last loss that told more of
 * the request that causes it, or since a device has lasted a minute. The load of each device computes
 * steps that are no request's, so a device that is lost whatever it computes ends with an error, and
 * requests go on only where such steps do.
 *
 * @module
 */
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { DeviceError, GroupError, InvalidRequestError } from "../../errors.ts";
import { adapterName, type DeviceSource, lossOf } from "../../gpu/device.ts";
import { ONE_RANK } from "../../parallel/communicator.ts";
import { pageCarrier, prefixCarrier } from "../draft_model/draft_pages.ts";
import type { EngineOptions, RecoveryEvent } from "../engine_options.ts";
import type { EngineModel } from "../ranks/engine_model.ts";
import { loadRanks, type RankLoading } from "../ranks/rank_group.ts";
import type { PageCarrier } from "../schedule/retraction_memory.ts";
import type { Sequence } from "../schedule/sequence.ts";
import type { LossFinding } from "../schedule/suspects.ts";
import type { LoadOptions } from "./load_options.ts";

/** Seconds before each try. */
export const RECOVERY_WAITS: readonly number[] = [0, 1, 2, 4, 8];
/** A device that lasts so many milliseconds is not lost again for the same reason. */
const STEADY_MS = 60_000;

export interface RecoverableModelOptions {
  /** What the model was loaded from, and is read from again. */
  readonly source: WeightSource;
  /** What it was loaded with. */
  readonly options: LoadOptions & RankLoading;
  /** Called when its device is lost, unless the model is closed. */
  readonly onLost: (loss: DeviceError) => void;
}

/** What carries pages. */
export interface Carriers {
  /** To host memory, for sequences that wait. */
  readonly retracted: PageCarrier;
  /** To a store of prefixes. */
  readonly stored: ReturnType<typeof prefixCarrier>;
}

export interface RecoverOptions {
  /** Whether there are requests, whose answers must go on with the same bits. */
  readonly isBusy: () => boolean;
  /** What the loss has told of the requests in flight, where it has told anything. */
  readonly finding?: LossFinding<Sequence> | undefined;
}

/** What hears of a loss, until a device is lost or the engine is closed. */
interface LossWatch {
  onLoss?: ((loss: Loss) => void) | undefined;
}

/** A device that outlives its engine holds on to the watch alone, and so to nothing once that is emptied. */
function forward(lost: Promise<Loss>, watch: LossWatch): void {
  lost.then((loss) => watch.onLoss?.(loss));
}

export class RecoverableModel {
  readonly #options: RecoverableModelOptions;
  readonly #waits: readonly number[];
  readonly #closing = new AbortController();
  #current: EngineModel;
  #loadedAt = performance.now();
  /** Why its device is gone. */
  #reason: string | undefined;
  #recoveries = 0;
  /** Waits that are used up. */
  #tries = 0;
  /** To be called when the device that is lost is replaced, or cannot be. */
  #onSettled: (() => void)[] = [];
  /** What hears of the current model's devices. */
  #watch: LossWatch = {};

  /** @param loaded From `source`, with `options`. */
  constructor(loaded: EngineModel, given: RecoverableModelOptions) {
    this.#options = given;
    this.#waits = given.options.recoveryWaits ?? RECOVERY_WAITS;
    this.#current = loaded;
    this.#watchLosses(loaded);
  }

  /** The model on the device it is on now; of no use while there is a `loss`. */
  get current(): EngineModel {
    return this.#current;
  }

  /** Carry pages of the device that is there; absent where no option asks for it. */
  get carriers(): Carriers | undefined {
    if (this.#current.codec === undefined) return undefined;
    const sides = () => ({ codec: this.#current.codec!, draft: this.#current.draftPages });
    const own = pageCarrier(sides);
    const carrier = () => this.#current.retracted ?? own;
    const retracted: PageCarrier = {
      packedBytes: (pageCount) => carrier().packedBytes(pageCount),
      readPages: (pages) => carrier().readPages(pages),
      writePages: (bytes, pages, options) => carrier().writePages(bytes, pages, options),
      release: (bytes) => carrier().release?.(bytes),
    };
    return { retracted, stored: prefixCarrier(sides) };
  }

  /** That its device is gone; undefined while it is there. */
  get loss(): DeviceError | undefined {
    if (this.#reason === undefined) return undefined;
    return new DeviceError(`Cannot go on: the device is lost (${this.#reason})`);
  }

  /** Whether its device is gone, and another one is to take its place. */
  get isRecovering(): boolean {
    return this.#reason !== undefined && this.#isReplaceable;
  }

  get #isReplaceable(): boolean {
    const hasFactory = typeof this.#options.options.device === "function";
    return hasFactory && this.#waits.length > 0 && !this.#closing.signal.aborted;
  }

  /** How often there was another device. */
  get recoveries(): number {
    return this.#recoveries;
  }

  /** Whether something has failed because the device is gone, and another one is to take its place. */
  async isLost(): Promise<boolean> {
    if (!this.#closing.signal.aborted) await Promise.race(lossesOf(this.#current).map(lossOf));
    return this.isRecovering;
  }

  /** Resolves when a device that is lost is replaced, or cannot be. */
  async settled(): Promise<void> {
    if (this.isRecovering) await new Promise<void>((resolve) => this.#onSettled.push(resolve));
  }

  /**
   * Requires that what a step has failed to compute may be computed again. To be called while no step
   * is in flight.
   *
   * @throws the step's error, where the device is gone or ranks of other processes wait for this one no
   * more.
   */
  requireRepeatable(failure: Error): void {
    const { communicator = ONE_RANK } = this.#options.options;
    if (this.#reason !== undefined || communicator.size > 1) throw failure;
    this.#current.renewGroup?.();
  }

  /** Tells that what a step has failed to compute is computed again. */
  repeats({ message }: Error): void {
    this.#tell({ kind: "repeating", reason: message });
  }

  /** Takes note that a step has sampled a token: devices that are lost from now on count anew. */
  progressed(): void {
    this.#tries = 0;
  }

  /**
   * Replaces the device that is lost. To be called while nothing uses the model.
   *
   * @throws {DeviceError} when every try has failed, or the next device is not like the last.
   */
  async recover({ isBusy, finding }: RecoverOptions): Promise<void> {
    const begun = performance.now();
    const isSteady = begun - this.#loadedAt > STEADY_MS;
    if (isSteady || this.#current.hasSampled?.() === true) this.#tries = 0;
    const { signal } = this.#closing;
    try {
      this.#tell({ kind: "started", reason: this.#reason! });
      if (finding !== undefined) {
        // A search ends: each loss leaves fewer suspects.
        this.#tries = 0;
        this.#tell(eventOf(finding));
      }
      // What its driver still holds is wanted for the next one.
      discard(this.#current);
      this.#current = await this.#replacement(isBusy);
    } catch (error) {
      if (!signal.aborted) this.#tell({ kind: "failed", reason: (error as Error).message });
      this.#settle();
      throw error;
    }
    this.#reason = undefined;
    this.#settle();
    this.#loadedAt = performance.now();
    this.#recoveries += 1;
    this.#watchLosses(this.#current);
    this.#tell({ kind: "finished", seconds: (this.#loadedAt - begun) / 1000 });
  }

  #settle(): void {
    for (const call of this.#onSettled.splice(0)) call();
  }

  /** Devices that are lost from now on are not replaced, and none that is awaited. */
  close(): void {
    this.#closing.abort(new DeviceError("Cannot go on: the engine is closed"));
    this.#watch.onLoss = undefined;
  }

  /** Frees the model on its device. */
  destroy(): void {
    this.#current.destroy();
  }

  /** As `close`; and ranks that are elsewhere hear why. */
  abandon(error: Error): void {
    // Who closes the engine tells them in order.
    if (error === this.#closing.signal.reason) return;
    this.close();
    this.#current.abandon?.(error.message);
  }

  #watchLosses(model: EngineModel): void {
    const watch: LossWatch = {
      onLoss: ({ message, reason }) => {
        // The others of the same ranks are let go of, and replaced with it.
        watch.onLoss = undefined;
        this.#reason = message || reason;
        this.#options.onLost(this.loss!);
      },
    };
    this.#watch = watch;
    for (const { lost } of lossesOf(model)) forward(lost, watch);
  }

  async #replacement(isBusy: () => boolean): Promise<EngineModel> {
    const { signal } = this.#closing;
    let cause: Error = this.loss!;
    for (let isFirst = true; ; isFirst = false) {
      const seconds = this.#waits[this.#tries];
      if (seconds === undefined) {
        const tries = `${this.#tries} ${this.#tries === 1 ? "try" : "tries"}`;
        throw new DeviceError(`Cannot replace a lost device after ${tries}: ${cause.message}`, {
          cause,
        });
      }
      if (!isFirst) this.#tell({ kind: "retrying", reason: cause.message, seconds });
      this.#tries += 1;
      let loaded: EngineModel;
      try {
        await orAborted(signal, pause(seconds, signal));
        loaded = await orAborted(signal, this.#load());
      } catch (error) {
        // A group that has ended has no next try.
        if (signal.aborted || error instanceof GroupError) throw error;
        cause = error instanceof Error ? error : new Error(String(error));
        continue;
      }
      const difference = differenceOf(this.#current, loaded, isBusy());
      if (difference === undefined) return loaded;
      discard(loaded);
      throw new DeviceError(`Cannot go on with another device than the lost one: ${difference}`);
    }
  }

  /** Reads everything again; frees it, and its device, where it fails or no caller waits for it any more. */
  async #load(): Promise<EngineModel> {
    const { source, options } = this.#options;
    const { signal } = this.#closing;
    const opened: GPUDevice[] = [];
    const device = async (which: number) => {
      const one = await (options.device as Exclude<DeviceSource, GPUDevice>)(which);
      opened.push(one);
      return one;
    };
    try {
      const loaded = await (options.loadRanks ?? loadRanks)(await Checkpoint.open(source), {
        ...options,
        device,
        signal,
        onPlan: undefined,
        onProgress: (progress) => this.#tell({ kind: "progress", ...progress }),
      });
      if (signal.aborted) discard(loaded);
      return loaded;
    } catch (error) {
      for (const one of opened) one.destroy();
      throw error;
    } finally {
      // What has been read is whole, however its files take being let go of.
      await source.close?.().catch(() => {});
      await options.draftModel?.close?.().catch(() => {});
    }
  }

  #tell(event: RecoveryEvent): void {
    this.#options.options.onRecovery?.(event);
  }
}

function eventOf(finding: LossFinding<Sequence>): RecoveryEvent {
  if (finding.kind === "searching") return finding;
  const { sequence, losses } = finding;
  return { kind: "found", requestId: sequence.requestId, losses };
}

type Loss = Pick<GPUDeviceLostInfo, "message" | "reason">;

/** What tells that a model's devices are lost, or that of a rank elsewhere. */
const lossesOf = ({ lost, devices }: EngineModel): readonly { readonly lost: Promise<Loss> }[] =>
  lost === undefined ? devices : [{ lost }];

/** Frees a model with its devices, which no other model uses. */
function discard(model: Pick<EngineModel, "destroy" | "devices">): void {
  model.destroy();
  for (const device of model.devices) device.destroy();
}

/** @throws {InvalidRequestError} when one is no time to wait for. */
export function requireWaits({ recoveryWaits = [] }: Pick<EngineOptions, "recoveryWaits">): void {
  const wrong = recoveryWaits.find((seconds) => !(seconds >= 0 && Number.isFinite(seconds)));
  if (wrong === undefined) return;
  throw new InvalidRequestError(
    `Cannot use recoveryWaits [${recoveryWaits}]: they must be seconds of at least 0`,
    "recoveryWaits",
  );
}

/** What another device's model is compared by. */
type AlikeModel = Omit<EngineModel, "codec" | "copier" | "devices">;

/** What of a model on its device has to stay as it is, by what it is called in messages. */
function sizesOf({ device, options, memoryBudget, runner, hash }: AlikeModel) {
  return {
    // The bits of another device may be other ones, and what is stored says whose they are.
    ...(options.prefixStore && { "the adapter": adapterName(device) }),
    "the checkpoint": hash,
    "slots of the cache": memoryBudget.cacheTokens,
    "rows of a step": options.maxRows,
    "prompt rows of a step": options.maxPrefillRows,
    "scored rows of a step": runner.maxScoredRows,
    "requests at once": options.maxRunningRequests,
  };
}

/** The same for what answers depend on. */
function numericsOf({ figures, matrices, selfTest }: AlikeModel) {
  return {
    "numeric classes": Object.values(figures.numericClasses).join(),
    "subgroup matrices": matrices ?? "none",
    "batch invariance": figures.batchInvariant,
    "the adapter's self-test": selfTest.failures.join("; ") || "passed",
  };
}

/** What has changed from one device to the next and must not; undefined when nothing has. */
export function differenceOf(
  lost: AlikeModel,
  next: AlikeModel,
  isBusy: boolean,
): string | undefined {
  const factsOf = (model: AlikeModel): Readonly<Record<string, unknown>> => {
    return { ...sizesOf(model), ...(isBusy && numericsOf(model)) };
  };
  const [before, after] = [factsOf(lost), factsOf(next)];
  const name = Object.keys(before).find((key) => before[key] !== after[key]);
  return name && `${name} changed from ${before[name]} to ${after[name]}`;
}

/** What `work` comes to, unless the signal is aborted before. */
async function orAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    else signal.addEventListener("abort", onAbort);
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

function pause(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const onAbort = () => clearTimeout(timer);
    const timer = setTimeout(() => {
      // The signal lasts as long as the engine, and there may be many devices.
      signal.removeEventListener("abort", onAbort);
      resolve();
    }, 1000 * seconds);
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
