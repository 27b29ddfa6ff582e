/**
 * Several engines with the same model as one, which shares requests out among them.
 *
 * A request has the bits that each of them gives it, so that only how long it takes depends on where
 * it goes.
 *
 * @module
 */
import { DeviceError, InvalidRequestError } from "../../errors.ts";
import type { ExpertRecord, ExpertRecording } from "../../expert_record.ts";
import type {
  DetokenizeOptions,
  EngineStatus,
  GenerationChunk,
  GenerationEngine,
  TokenizeRequest,
} from "../../generation.ts";
import type { CacheTree, CacheTreeOptions, FlushOptions } from "../../prefix_cache.ts";
import type { Profile, ProfileOptions } from "../../profile.ts";
import { type BegunProfile, joinedProfile, joinedRecord, joinedTree } from "./joined_answers.ts";
import { joinedStatus } from "./joined_status.ts";
import {
  type LoadBalance,
  type LoadBalanceMethod,
  loadBalance,
  promptTokens,
} from "./load_balance.ts";
import { Replica } from "./replica.ts";
import { ReplicaStream, type Route, type SignalledRequest } from "./replica_stream.ts";

export interface ReplicasOptions {
  /** How a replica is chosen for a request that names none. Default round_robin. */
  readonly loadBalanceMethod?: LoadBalanceMethod | undefined;
  /**
   * Seconds without a finished step after which a replica that has work gets no further requests, as
   * long as others get on. Default 10.
   */
  readonly stallSeconds?: number | undefined;
}

const STALL_SECONDS = 10;
/** Of a drawing of the cache, where its caller does not say. */
const TREE_NODES = 256;

export class ReplicatedEngine implements GenerationEngine {
  readonly model: GenerationEngine["model"];
  /** Absent where one of the replicas has none. */
  readonly profile?: NonNullable<GenerationEngine["profile"]>;
  readonly cacheTree?: NonNullable<GenerationEngine["cacheTree"]>;
  readonly recordExperts?: NonNullable<GenerationEngine["recordExperts"]>;
  readonly #replicas: readonly Replica[];
  readonly #balance: LoadBalance<Replica>;
  readonly #stallSeconds: number;

  /**
   * @param engines With the same model, loaded with the same options; closed with this one.
   * @throws {InvalidRequestError} when there are none, they differ, or an option is out of range.
   */
  constructor(
    engines: readonly GenerationEngine[],
    { loadBalanceMethod = "round_robin", stallSeconds = STALL_SECONDS }: ReplicasOptions = {},
  ) {
    requireAlike(engines);
    this.#balance = loadBalance(loadBalanceMethod);
    this.#stallSeconds = stallSeconds;
    this.#replicas = engines.map((engine, number) => new Replica(engine, number));
    const contextLength = engines.reduce(
      (least, { model }) => Math.min(least, model.contextLength),
      Number.POSITIVE_INFINITY,
    );
    this.model = { ...engines[0]!.model, contextLength, dataParallelSize: engines.length };
    const all = (name: "profile" | "cacheTree" | "recordExperts") =>
      engines.every((engine) => engine[name] !== undefined);
    if (all("profile")) this.profile = (work, options) => this.#profile(work, options);
    if (all("cacheTree")) this.cacheTree = (options) => this.#cacheTree(options);
    if (all("recordExperts")) this.recordExperts = (recording) => this.#recordExperts(recording);
  }

  generate(request: SignalledRequest): AsyncIterableIterator<GenerationChunk, undefined> {
    return new ReplicaStream(request, () => this.#route(request));
  }

  abort(requestId?: string): void {
    for (const { engine } of this.#replicas) engine.abort(requestId);
  }

  /** All of them read texts alike. */
  async tokenize(
    request: TokenizeRequest & { readonly signal?: AbortSignal },
  ): Promise<readonly number[]> {
    return this.#usable()[0]!.engine.tokenize(request);
  }

  async detokenize(tokens: readonly number[], options?: DetokenizeOptions): Promise<string> {
    return this.#usable()[0]!.engine.detokenize(tokens, options);
  }

  status(): EngineStatus {
    return joinedStatus(this.#replicas.map(({ engine }) => engine.status()));
  }

  /** @returns As of one engine; replicas in other threads may have flushed where others could not. */
  async flushCache(options?: FlushOptions): Promise<boolean> {
    const { runningRequests, queuedRequests } = this.status();
    if (runningRequests + queuedRequests > 0) return false;
    for (const replica of this.#replicas) this.#balance.forget(replica);
    const flushed = await Promise.all(this.#living.map((engine) => engine.flushCache(options)));
    return flushed.every((one) => one);
  }

  async close(): Promise<void> {
    const closed = await Promise.allSettled(this.#replicas.map(({ engine }) => engine.close()));
    for (const one of closed) if (one.status === "rejected") throw one.reason;
  }

  /** Those that are neither gone for good nor about to leave; all, where none is left. */
  get #living(): readonly GenerationEngine[] {
    const engines = this.#replicas.map(({ engine }) => engine);
    const living = engines.filter((engine) => {
      const { healthy, draining } = engine.status();
      return healthy && draining !== true;
    });
    return living.length > 0 ? living : engines;
  }

  #usable(): readonly Replica[] {
    for (const replica of this.#replicas) {
      if (replica.look(this.#stallSeconds)) this.#balance.forget(replica);
    }
    return Replica.best(this.#replicas);
  }

  #route(request: SignalledRequest): Route {
    const { dataParallelRank: asked } = request;
    const replica =
      asked === undefined ? this.#balance.choose(this.#usable(), request) : this.#named(asked);
    return {
      replica,
      sent: replica.send(this.#balance.countsTokens ? promptTokens(request) : 0),
    };
  }

  #named(number: number): Replica {
    const replica = this.#replicas[number];
    if (replica !== undefined) return replica;
    const { length } = this.#replicas;
    throw new InvalidRequestError(
      `dataParallelRank must be a whole number of at least 0 and less than ${length}, got ${number}`,
      "dataParallelRank",
    );
  }

  async #cacheTree({ maxNodes = TREE_NODES }: CacheTreeOptions = {}): Promise<CacheTree> {
    const engines = this.#living;
    const share = Number.isSafeInteger(maxNodes) ? Math.ceil(maxNodes / engines.length) : maxNodes;
    const trees = engines.map((engine) => engine.cacheTree!({ maxNodes: share }));
    return joinedTree(await Promise.all(trees), maxNodes);
  }

  async #recordExperts(recording: ExpertRecording): Promise<ExpertRecord> {
    const records = this.#living.map((engine) => engine.recordExperts!(recording));
    return joinedRecord(await Promise.all(records));
  }

  /** Of all that are not gone: the work begins once each of them is ready. */
  async #profile(work: () => Promise<unknown>, options?: ProfileOptions): Promise<Profile> {
    const replicas = this.#replicas.filter(({ engine }) => this.#living.includes(engine));
    const start = new Meeting(replicas.length, work);
    const profiles = replicas.map(async ({ engine, number }): Promise<BegunProfile> => {
      let begun: number | undefined;
      const own = () => {
        begun = performance.now();
        return start.come();
      };
      try {
        const profile = await engine.profile!(own, options);
        if (begun !== undefined) return { replica: number, begun, profile };
        throw new DeviceError("Cannot finish the profile: the engine is closed");
      } catch (error) {
        start.giveUp(error);
        throw error;
      }
    });
    return joinedProfile(await Promise.all(profiles));
  }
}

/** Work that begins once all have come. */
class Meeting {
  readonly #done: Promise<unknown>;
  #missing: number;
  #begin!: () => void;
  giveUp!: (error: unknown) => void;

  constructor(count: number, work: () => Promise<unknown>) {
    this.#missing = count;
    const met = new Promise<void>((resolve, reject) => {
      this.#begin = resolve;
      this.giveUp = reject;
    });
    this.#done = met.then(work);
    // Each that has come hears of it.
    this.#done.catch(() => {});
  }

  come(): Promise<unknown> {
    this.#missing -= 1;
    if (this.#missing === 0) this.#begin();
    return this.#done;
  }
}

/** @throws {InvalidRequestError} when they are not replicas of each other. */
function requireAlike(engines: readonly GenerationEngine[]): void {
  const refuse = (problem: string): never => {
    throw new InvalidRequestError(`Cannot share requests out: ${problem}`, "engines");
  };
  if (engines.length === 0) refuse("there is no engine");
  if (new Set(engines).size < engines.length) refuse("an engine is there twice");
  const facts = engines.map((engine) => {
    const { path, architecture, vocabularySize, hiddenSize } = engine.model;
    const { prefill, decode } = engine.status().numericClasses;
    return { path, architecture, vocabularySize, hiddenSize, prefill, decode };
  });
  for (const [i, own] of facts.entries()) {
    for (const [name, value] of Object.entries(facts[0]!)) {
      const other = own[name as keyof typeof own];
      if (other !== value) refuse(`${name} of engine ${i} is ${other}, and of the first ${value}`);
    }
  }
}
