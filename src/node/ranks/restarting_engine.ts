/**
 * The engine of a group that is started again when it has ended: the server in front of it stays, and
 * answers with errors meanwhile.
 *
 * @module
 */
import { GroupError } from "../../errors.ts";
import type { ExpertRecord, ExpertRecording } from "../../expert_record.ts";
import type {
  DetokenizeOptions,
  EngineStatus,
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
  TokenizeRequest,
} from "../../generation.ts";
import type { CacheTree, CacheTreeOptions, FlushOptions } from "../../prefix_cache.ts";
import type { Profile, ProfileOptions } from "../../profile.ts";
import { EXIT, LaunchError } from "../mpi/launch_error.ts";
import { deferred } from "../mpi/nodes.ts";
import type { Logger } from "../observe/logger.ts";
import type { StartedEngine } from "../serve/start_engine.ts";
import type { Restarts } from "./restarts.ts";

export interface RestartingOptions {
  readonly restarts: Restarts;
  readonly log: Logger;
  /** Starts a group; the signal gives it up. */
  readonly start: (signal: AbortSignal) => Promise<StartedEngine>;
  /** Of the first start. Default: it is not given up. */
  readonly signal?: AbortSignal | undefined;
}

export class RestartingEngine implements StartedEngine {
  readonly model: GenerationEngine["model"];
  readonly pageLayout: StartedEngine["pageLayout"];
  readonly roomCounts: StartedEngine["roomCounts"];
  readonly #options: RestartingOptions;
  readonly #closing = new AbortController();
  readonly #lost = deferred<never>();
  #current: StartedEngine;
  /** Why there is no group; undefined while there is one. */
  #reason: Error | undefined;
  /** Whether there will be none any more. */
  #isGone = false;
  #restarts = 0;
  #starting: Promise<void> = Promise.resolve();

  /** @throws as the first start: only a group that has run is started again. */
  static async start(options: RestartingOptions): Promise<RestartingEngine> {
    const { signal = new AbortController().signal } = options;
    return new RestartingEngine(await options.start(signal), options);
  }

  private constructor(first: StartedEngine, options: RestartingOptions) {
    this.#options = options;
    this.#current = first;
    this.model = first.model;
    this.pageLayout = first.pageLayout;
    // Of the group that there is, or of the last one.
    this.roomCounts = first.roomCounts && (() => this.#current.roomCounts!());
    this.#watch();
  }

  /** Rejects when the group is not started any more. */
  get lost(): Promise<never> {
    return this.#lost.promise;
  }

  generate(
    request: GenerationRequest & { readonly signal?: AbortSignal },
  ): AsyncIterable<GenerationChunk> {
    return this.#failure === undefined ? this.#current.generate(request) : refusal(this.#failure);
  }

  abort(requestId?: string): void {
    this.#current.abort(requestId);
  }

  async tokenize(
    request: TokenizeRequest & { readonly signal?: AbortSignal },
  ): Promise<readonly number[]> {
    return this.#engine.tokenize(request);
  }

  async detokenize(tokens: readonly number[], options?: DetokenizeOptions): Promise<string> {
    return this.#engine.detokenize(tokens, options);
  }

  async flushCache(options?: FlushOptions): Promise<boolean> {
    return this.#engine.flushCache(options);
  }

  async profile(work: () => Promise<unknown>, options?: ProfileOptions): Promise<Profile> {
    return this.#engine.profile!(work, options);
  }

  async cacheTree(options?: CacheTreeOptions): Promise<CacheTree> {
    return this.#engine.cacheTree!(options);
  }

  async recordExperts(recording: ExpertRecording): Promise<ExpertRecord> {
    return this.#engine.recordExperts!(recording);
  }

  status(): EngineStatus {
    const current = this.#current.status();
    const status = { ...current, restarts: this.#restarts + (current.restarts ?? 0) };
    if (this.#reason === undefined) return status;
    return { ...status, healthy: false, recovering: !this.#isGone };
  }

  async close(): Promise<void> {
    this.#options.restarts.end();
    this.#closing.abort(new LaunchError("Cannot start the group: it is stopped", EXIT.failed));
    await this.#starting;
    if (this.#reason === undefined) await this.#current.close();
  }

  /** @throws {GroupError} while there is no group. */
  get #engine(): StartedEngine {
    if (this.#failure !== undefined) throw this.#failure;
    return this.#current;
  }

  get #failure(): GroupError | undefined {
    if (this.#reason === undefined) return undefined;
    const state = this.#isGone
      ? `its ranks are lost (${this.#reason.message})`
      : `its ranks are being started again (${this.#reason.message})`;
    return new GroupError(`Cannot ask the engine: ${state}`, { cause: this.#reason });
  }

  #watch(): void {
    const { lost = deferred<never>().promise } = this.#current;
    this.#options.restarts.runs();
    lost.catch((error: Error) => {
      this.#reason = error;
      // A group that is lost while it ends is not started again, and did not end in order.
      if (this.#closing.signal.aborted) this.#lost.reject(error);
      else this.#starting = this.#startAgain();
    });
  }

  async #startAgain(): Promise<void> {
    const { restarts, log, start } = this.#options;
    const { signal } = this.#closing;
    const begun = performance.now();
    for (;;) {
      try {
        await restarts.next(this.#reason, signal);
        this.#current = await start(signal);
        break;
      } catch (error) {
        if (signal.aborted) return;
        if (error === this.#reason) {
          this.#isGone = true;
          return this.#lost.reject(error);
        }
        this.#reason = error as Error;
      }
    }
    this.#reason = undefined;
    this.#restarts += 1;
    const seconds = (performance.now() - begun) / 1000;
    const fields = { event: "group_restarted", seconds };
    log.event("info", `The group is there again, after ${seconds.toFixed(1)} s`, fields);
    this.#watch();
  }
}

/** The answer to a request that is refused where its first chunk would come. */
// biome-ignore lint/correctness/useYield: there is no chunk
export async function* refusal(error: Error): AsyncGenerator<never, undefined> {
  throw error;
}
