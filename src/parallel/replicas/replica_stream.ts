/**
 * One request of several replicas: which of them answers is chosen when it begins.
 *
 * @module
 */
import type { GenerationChunk, GenerationRequest } from "../../generation.ts";
import type { Replica, SentRequest } from "./replica.ts";

export type SignalledRequest = GenerationRequest & { readonly signal?: AbortSignal };
type Result = IteratorResult<GenerationChunk, undefined>;

const DONE: Result = { done: true, value: undefined };

/** Where a request goes. */
export interface Route {
  readonly replica: Replica;
  readonly sent: SentRequest;
}

/**
 * Written out instead of as an async generator, because `return()` of a generator waits for a pending
 * `next()`: a client that leaves between two tokens would be noticed one token late.
 */
export class ReplicaStream implements AsyncIterableIterator<GenerationChunk, undefined> {
  readonly #request: SignalledRequest;
  readonly #route: () => Route;
  #answer: (Route & { readonly chunks: AsyncIterator<GenerationChunk> }) | undefined;
  #isOver = false;

  /** @param route Called at the first `next`; what it throws ends the stream. */
  constructor(request: SignalledRequest, route: () => Route) {
    this.#request = request;
    this.#route = route;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Result> {
    if (this.#isOver) return DONE;
    try {
      this.#answer ??= this.#begin();
      const { replica, sent, chunks } = this.#answer;
      const result = await chunks.next();
      if (result.done) return this.#end();
      if (result.value.finish === null) sent.accept();
      else sent.end();
      return { done: false, value: { ...result.value, dataParallelRank: replica.number } };
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  async return(): Promise<Result> {
    this.#end();
    await this.#answer?.chunks.return?.();
    return DONE;
  }

  #begin() {
    const route = this.#route();
    const { dataParallelRank: _, ...request } = this.#request;
    const chunks = route.replica.engine.generate(request)[Symbol.asyncIterator]();
    return { ...route, chunks };
  }

  #end(): Result {
    this.#isOver = true;
    this.#answer?.sent.end();
    return DONE;
  }
}
