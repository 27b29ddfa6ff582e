/**
 * The generations of one HTTP request: started together, read as one sequence, stopped together.
 *
 * @module
 */
import type { Bootstrap } from "../bootstrap.ts";
import { InvalidRequestError } from "../errors.ts";
import type { GenerationChunk, GenerationEngine, GenerationRequest } from "../generation.ts";
import { clientOf } from "../http/client_of.ts";
import { jsonResponse } from "../http/long_json.ts";
import { turns } from "../turns.ts";
import type { ByteBudget } from "./byte_budget.ts";
import type { BootstrapOf } from "./fields/bootstrap_fields.ts";
import type { IdentifiedRequests } from "./live_requests.ts";
import type { ServerContext } from "./server_context.ts";

/** A chunk and the position of its generation in the request. */
export interface GroupChunk {
  readonly index: number;
  readonly chunk: GenerationChunk;
}

/**
 * Interleaves the chunks of several generations in the order in which they arrive.
 *
 * Written out instead of as an async generator, because `return()` of a generator waits for a
 * pending `next()`: a client that leaves between two tokens would be noticed one token late.
 */
export class GenerationGroup implements AsyncIterableIterator<GroupChunk> {
  readonly #iterators: readonly AsyncIterator<GenerationChunk>[];
  /** One for each generation: platforms warn of many listeners on one signal. */
  readonly #aborts: readonly AbortController[];
  readonly #clientSignal: AbortSignal;
  /** Of all generations, each once. */
  readonly #warnings = new Set<string>();
  /** At most one chunk of each generation; its next one is asked for when this one is handed on. */
  readonly #arrived: GroupChunk[] = [];
  /** Generations that have neither sent a chunk nor ended. */
  readonly #unheard: Set<number>;
  /** Generations that have not ended. */
  readonly #open: Set<number>;
  #failure: { readonly error: unknown } | null = null;
  #stopped: Promise<void> | null = null;
  #wake: () => void = () => {};
  #onEnd: () => void = () => {};
  #giveBack: () => void = () => {};

  private constructor(
    iterators: readonly AsyncIterator<GenerationChunk>[],
    aborts: readonly AbortController[],
    clientSignal: AbortSignal,
  ) {
    this.#iterators = iterators;
    this.#aborts = aborts;
    this.#clientSignal = clientSignal;
    this.#unheard = new Set(iterators.keys());
    this.#open = new Set(iterators.keys());
    clientSignal.addEventListener("abort", this.#onClientLeft, { once: true });
  }

  /**
   * Starts what a client has asked for in a request; its ids are taken until it has ended, and memory for its
   * log-probabilities until it is released.
   *
   * @throws {InvalidRequestError} when one of them is taken, and what `start` throws.
   * @throws {CapacityError} when other answers hold too much memory.
   */
  static async answer(
    { engine, live, logprobMemory, bootstraps }: ServerContext,
    asked: IdentifiedRequests,
    request: Request,
  ): Promise<GenerationGroup> {
    const { signal } = request;
    if (signal.aborted) throw clientLeft();
    const rooms = roomsOf(asked.requests.length, bootstraps.get(request));
    const { requests, leave } = live.admit(asked);
    const client = clientOf(request);
    const own = requests.map((one, i) => ({
      ...one,
      ...(client !== undefined && { client }),
      ...(rooms[i] && { bootstrap: rooms[i] }),
    }));
    try {
      const group = await GenerationGroup.start(engine, own, signal, leave);
      await group.#hold(logprobMemory);
      return group;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /**
   * Starts one generation for each request and waits until each has been accepted, which its first
   * chunk tells. All or nothing: when the engine refuses one, the group stops the rest.
   *
   * @param clientSignal Stops everything, as leaving the iteration does.
   * @param onEnd Called once, when every generation has ended.
   * @throws what the engine threw first, or an AbortError when `clientSignal` fires.
   */
  static async start(
    engine: GenerationEngine,
    requests: readonly GenerationRequest[],
    clientSignal: AbortSignal,
    onEnd: () => void = () => {},
  ): Promise<GenerationGroup> {
    if (clientSignal.aborted) throw clientLeft();
    const aborts = requests.map(() => new AbortController());
    const iterators = requests.map((request, i) =>
      engine.generate({ ...request, signal: aborts[i]!.signal })[Symbol.asyncIterator](),
    );
    const group = new GenerationGroup(iterators, aborts, clientSignal);
    group.#onEnd = onEnd;
    await group.#begin();
    while (group.#unheard.size > 0 && group.#failure === null) await group.#news();
    await group.#throwFailure();
    return group;
  }

  /** Begins all generations: few together, many in slices. */
  async #begin(): Promise<void> {
    for (const index of this.#iterators.keys()) {
      if (this.#failure !== null) return;
      void this.#pull(index);
      if (turns.isDue) await turns.take();
    }
  }

  /** Takes the memory that the first chunks tell of; where it is full, the group stops. */
  async #hold(memory: ByteBudget): Promise<void> {
    const bytes = this.#arrived.reduce((sum, { chunk }) => sum + (chunk.logprobBytes ?? 0), 0);
    try {
      if (bytes > memory.limit) throw tooMuch(bytes, memory.limit);
      this.#giveBack = memory.take(bytes);
    } catch (error) {
      await this.#stop();
      throw error;
    }
  }

  /** What was ignored of the request, in sentences. */
  get warnings(): readonly string[] {
    return [...this.#warnings];
  }

  /** Gives back what is held for the answer: it is written, or its client has left. */
  release(): void {
    this.#giveBack();
  }

  /** The answer whose body is what `write` makes: it is released once that is sent, or cannot be made. */
  releasing(write: () => object): Response {
    try {
      return jsonResponse(write(), () => this.release());
    } catch (error) {
      this.release();
      throw error;
    }
  }

  /** Hands on every chunk, for an answer that is written when all are there. */
  async collect(take: (item: GroupChunk) => void): Promise<void> {
    try {
      for await (const item of this) take(item);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<GroupChunk, undefined>> {
    for (;;) {
      if (this.#failure !== null) await this.#throwFailure();
      if (this.#stopped !== null) return { done: true, value: undefined };
      const value = this.#arrived.shift();
      if (value !== undefined) {
        void this.#pull(value.index);
        return { done: false, value };
      }
      if (this.#open.size === 0) await this.#stop();
      else await this.#news();
    }
  }

  /** Stops every generation that still runs; they have ended when the promise resolves. */
  async return(): Promise<IteratorResult<GroupChunk, undefined>> {
    await this.#stop();
    return { done: true, value: undefined };
  }

  /** Never rejects: what goes wrong becomes the group's failure. */
  async #pull(index: number): Promise<void> {
    try {
      const result = await this.#iterators[index]!.next();
      if (result.done) {
        this.#open.delete(index);
      } else {
        this.#arrived.push({ index, chunk: result.value });
        for (const one of result.value.compilation?.warnings ?? []) this.#warnings.add(one);
      }
    } catch (error) {
      this.#open.delete(index);
      // Once the group is stopped, the rest answers with aborts, which are no news.
      if (this.#stopped === null) this.#failure ??= { error };
    }
    this.#unheard.delete(index);
    this.#wake();
  }

  readonly #onClientLeft = (): void => {
    this.#failure ??= { error: clientLeft() };
    void this.#stop();
  };

  /** Resolves when something has happened since the call. */
  #news(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  async #throwFailure(): Promise<void> {
    if (this.#failure === null) return;
    await this.#stop();
    throw this.#failure.error;
  }

  #stop(): Promise<void> {
    this.#stopped ??= this.#stopAll();
    this.#wake();
    return this.#stopped;
  }

  async #stopAll(): Promise<void> {
    this.#clientSignal.removeEventListener("abort", this.#onClientLeft);
    for (const abort of this.#aborts) {
      abort.abort();
      if (turns.isDue) await turns.take();
    }
    // Settled, not all: an iterator that rejects while it is stopped has stopped.
    await Promise.allSettled(
      [...this.#open].map(async (index) => this.#iterators[index]!.return?.()),
    );
    this.#onEnd();
  }
}

/** Of several answers together; one alone is refused by the engine. */
function tooMuch(bytes: number, limit: number): InvalidRequestError {
  return new InvalidRequestError(
    `Cannot tell the log-probabilities of all answers: they take ${bytes} bytes, and there are ${limit}`,
    "logprobs",
  );
}

/** Where each of so many answers meets its other side. */
function roomsOf(count: number, of: BootstrapOf | undefined): readonly (Bootstrap | undefined)[] {
  return of === undefined ? [] : Array.from({ length: count }, (_, i) => of(i, count));
}

function clientLeft(): DOMException {
  return new DOMException("The client left", "AbortError");
}
