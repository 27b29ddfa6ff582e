/**
 * An engine that leaves the device while no request comes, and is loaded again by the next one.
 *
 * @module
 */
import { CapacityError, DeviceError } from "../../errors.ts";
import type {
  DetokenizeOptions,
  EngineStatus,
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
  TokenizeRequest,
} from "../../generation.ts";
import type { FlushOptions } from "../../prefix_cache.ts";
import type { ProfileOptions } from "../../profile.ts";
import { HEALTH_CHECK } from "../../server/observe/health_probe.ts";
import type { StartedEngine } from "./start_engine.ts";
import { WakingStream } from "./waking_stream.ts";

export interface SleepOptions {
  /** Seconds without a request after which it sleeps. */
  readonly idleSeconds: number;
  /** Loads the model again. */
  readonly load: () => Promise<StartedEngine>;
  readonly onSleep?: () => void;
  readonly onWake?: (seconds: number) => void;
  readonly onFailure?: (error: unknown) => void;
}

/** What of the figures of engines that are gone goes on to be counted. */
type Counted = Pick<EngineStatus, "recoveries" | "retractions">;

/** What an engine has that is not on the device. */
const NOTHING = {
  recovering: false,
  runningRequests: 0,
  queuedTokens: 0,
  usedTokens: 0,
  cachedTokens: 0,
  retractedRequests: 0,
  stalledFor: 0,
  weightBytes: 0,
  cacheBytes: 0,
};

export class SleepingEngine implements StartedEngine {
  readonly model: GenerationEngine["model"];
  readonly profile?: NonNullable<GenerationEngine["profile"]>;
  readonly cacheTree?: NonNullable<GenerationEngine["cacheTree"]>;
  readonly recordExperts?: NonNullable<GenerationEngine["recordExperts"]>;
  readonly #options: SleepOptions;
  /** Undefined while it sleeps, or is being put to sleep. */
  #engine: StartedEngine | undefined;
  /** The engine before is closed when it resolves. */
  #closing: Promise<void> = Promise.resolve();
  #waking: Promise<StartedEngine> | undefined;
  /** What the newest engine last said of itself. */
  #last: EngineStatus;
  #counted: Counted = { recoveries: 0, retractions: 0 };
  #uses = 0;
  readonly #streams = new Set<WakingStream>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When it was last used, in milliseconds. */
  #usedAt = performance.now();
  /** Why the newest try to load it again failed. */
  #failure: unknown;
  #isClosed = false;

  constructor(engine: StartedEngine, options: SleepOptions) {
    this.#engine = engine;
    this.#options = options;
    this.model = engine.model;
    this.#last = engine.status();
    if (engine.profile !== undefined) {
      this.profile = (work, asked?: ProfileOptions) =>
        this.#use((awake) => awake.profile!(work, asked));
    }
    if (engine.cacheTree !== undefined) {
      this.cacheTree = (asked) => this.#use((awake) => awake.cacheTree!(asked));
    }
    if (engine.recordExperts !== undefined) {
      this.recordExperts = (recording) => this.#use((awake) => awake.recordExperts!(recording));
    }
    this.#restart();
  }

  generate(
    request: GenerationRequest & { readonly signal?: AbortSignal },
  ): AsyncIterableIterator<GenerationChunk, undefined> {
    const stream: WakingStream = new WakingStream(request, {
      begin: () => {
        if (this.#engine === undefined) this.#requireRoom();
        this.#begin();
        this.#streams.add(stream);
        return this.#engine ?? this.#wake();
      },
      end: () => {
        this.#streams.delete(stream);
        this.#end(request.requestId?.startsWith(HEALTH_CHECK) !== true);
      },
    });
    return stream;
  }

  abort(requestId?: string): void {
    for (const stream of this.#streams) stream.abort(requestId);
    this.#engine?.abort(requestId);
  }

  tokenize(
    request: TokenizeRequest & { readonly signal?: AbortSignal },
  ): Promise<readonly number[]> {
    return this.#use((engine) => engine.tokenize(request));
  }

  detokenize(tokens: readonly number[], options?: DetokenizeOptions): Promise<string> {
    return this.#use((engine) => engine.detokenize(tokens, options));
  }

  status(): EngineStatus {
    const engine = this.#engine;
    if (engine !== undefined) return this.#with(engine.status());
    const asleep = {
      ...NOTHING,
      healthy: this.#failure === undefined && !this.#isClosed,
      sleep: this.#waking === undefined ? "asleep" : "waking",
    } as const;
    // What waits belongs to no replica yet: the first one shows it.
    const replicas = this.#last.replicas?.map((one, i) => {
      return { ...one, ...asleep, queuedRequests: i === 0 ? this.#waitingCount : 0 };
    });
    return {
      ...this.#with(this.#last),
      ...asleep,
      queuedRequests: this.#waitingCount,
      ...(replicas && { replicas }),
    };
  }

  /** The cache of an engine that sleeps is empty: only stored prefixes are a reason to wake it. */
  async flushCache(options: FlushOptions = {}): Promise<boolean> {
    if (this.#engine === undefined && options.stored !== true) return this.#waking === undefined;
    return this.#use((engine) => engine.flushCache(options));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const stream of this.#streams) stream.abort();
    // A load that goes on would leave its device behind.
    await this.#waking?.catch(() => {});
    await this.#closing;
    await this.#engine?.close();
  }

  get #waitingCount(): number {
    return [...this.#streams].filter((stream) => stream.isWaiting).length;
  }

  /** As the engine will have it, once it is there. */
  #requireRoom(): void {
    const { maxRunningRequests, maxQueuedRequests = Number.POSITIVE_INFINITY } = this.#last;
    if (this.#waitingCount < maxRunningRequests + maxQueuedRequests) return;
    const state = `all ${maxQueuedRequests} are taken; a request that ends frees one`;
    throw new CapacityError("places in the request queue", maxQueuedRequests, state);
  }

  #with(status: EngineStatus): EngineStatus {
    const { recoveries, retractions } = this.#counted;
    return {
      ...status,
      recoveries: status.recoveries + recoveries,
      retractions: status.retractions + retractions,
    };
  }

  async #use<T>(work: (engine: StartedEngine) => Promise<T>): Promise<T> {
    this.#begin();
    try {
      return await work(this.#engine ?? (await this.#wake()));
    } finally {
      this.#end(true);
    }
  }

  #begin(): void {
    if (this.#isClosed) throw new DeviceError("Cannot generate: the engine is closed");
    this.#uses += 1;
    clearTimeout(this.#timer);
  }

  /** @param counts False of a health check, which keeps nothing awake. */
  #end(counts: boolean): void {
    this.#uses -= 1;
    if (counts) this.#usedAt = performance.now();
    this.#restart();
  }

  #restart(): void {
    clearTimeout(this.#timer);
    if (this.#uses > 0 || this.#engine === undefined || this.#isClosed) return;
    const left = 1000 * this.#options.idleSeconds - (performance.now() - this.#usedAt);
    this.#timer = setTimeout(() => this.#sleep(), Math.max(left, 0));
    this.#timer.unref?.();
  }

  #sleep(): void {
    const engine = this.#engine;
    if (engine === undefined || this.#uses > 0 || this.#isClosed) return;
    this.#last = engine.status();
    // One whose device is lost for good stays, so that health checks tell of it.
    if (!this.#last.healthy) return;
    this.#engine = undefined;
    const { recoveries, retractions } = this.#with(this.#last);
    this.#counted = { recoveries, retractions };
    this.#last = { ...this.#last, recoveries: 0, retractions: 0 };
    this.#closing = engine
      .close()
      .catch((error: unknown) => this.#options.onFailure?.(error))
      .finally(() => engine.freeDevice?.());
    this.#options.onSleep?.();
  }

  /** Loads it once for all that wait. */
  #wake(): Promise<StartedEngine> {
    this.#waking ??= this.#load().finally(() => {
      this.#waking = undefined;
      // Those who waited may have left.
      this.#restart();
    });
    return this.#waking;
  }

  async #load(): Promise<StartedEngine> {
    const begunAt = performance.now();
    await this.#closing;
    try {
      this.#engine = await this.#options.load();
      this.#failure = undefined;
      this.#usedAt = performance.now();
    } catch (error) {
      this.#failure = error;
      this.#options.onFailure?.(error);
      const reason = error instanceof Error ? error.message : String(error);
      throw new DeviceError(`Cannot load the model again: ${reason}`, { cause: error });
    }
    this.#options.onWake?.((performance.now() - begunAt) / 1000);
    return this.#engine;
  }
}
