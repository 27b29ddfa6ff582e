/**
 * One request of an engine that may have to be loaded first.
 *
 * @module
 */
import { abortError } from "../../engine/schedule/chunk_stream.ts";
import type { GenerationChunk, GenerationEngine, GenerationRequest } from "../../generation.ts";

type Request = GenerationRequest & { readonly signal?: AbortSignal };
type Result = IteratorResult<GenerationChunk, undefined>;

export interface WakingStreamOptions {
  /** Called at the first `next`. What it gives answers the request. */
  readonly begin: () => GenerationEngine | Promise<GenerationEngine>;
  /** Called once, when a request that was begun is over. */
  readonly end: () => void;
}

const DONE: Result = { done: true, value: undefined };

export class WakingStream implements AsyncIterableIterator<GenerationChunk, undefined> {
  readonly #request: Request;
  readonly #options: WakingStreamOptions;
  #state: "new" | "waiting" | "running" | "over" = "new";
  #chunks: AsyncIterator<GenerationChunk> | undefined;
  /** Ends the wait, in whichever way. */
  #stopWaiting: (outcome: Promise<undefined>) => void = () => {};
  /** What the caller is told in place of an answer, where one has aborted it. */
  #aborted = false;

  constructor(request: Request, options: WakingStreamOptions) {
    this.#request = request;
    this.#options = options;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Whether the engine is not there yet. */
  get isWaiting(): boolean {
    return this.#state === "waiting";
  }

  /** As the caller may leave while something is waited for. */
  get #isOver(): boolean {
    return this.#state === "over";
  }

  async next(): Promise<Result> {
    if (this.#isOver) return DONE;
    try {
      this.#chunks ??= await this.#open();
      if (this.#chunks === undefined) return this.#left();
      const result = await this.#chunks.next();
      if (result.done || result.value.finish !== null) this.#end();
      return result.done ? DONE : result;
    } catch (error) {
      this.#end();
      throw error;
    }
  }

  async return(): Promise<Result> {
    this.#stopWaiting(Promise.resolve(undefined));
    if (this.#state !== "new") this.#end();
    this.#state = "over";
    await this.#chunks?.return?.();
    return DONE;
  }

  /** Ends a request that waits as an engine ends one: by a last chunk. */
  abort(requestId = this.#request.requestId): void {
    if (!this.isWaiting || requestId !== this.#request.requestId) return;
    this.#aborted = true;
    this.#stopWaiting(Promise.resolve(undefined));
  }

  /** Undefined where the request was ended before the engine was there. */
  async #open(): Promise<AsyncIterator<GenerationChunk> | undefined> {
    const { signal } = this.#request;
    if (signal?.aborted) throw abortError();
    const engine = this.#options.begin();
    this.#state = engine instanceof Promise ? "waiting" : "running";
    const found = engine instanceof Promise ? await this.#wait(engine) : engine;
    if (found === undefined || this.#isOver) return undefined;
    this.#state = "running";
    return found.generate(this.#request)[Symbol.asyncIterator]();
  }

  #wait(engine: Promise<GenerationEngine>): Promise<GenerationEngine | undefined> {
    const { signal } = this.#request;
    return new Promise((resolve, reject) => {
      const onAbort = () => reject(abortError());
      this.#stopWaiting = resolve;
      signal?.addEventListener("abort", onAbort, { once: true });
      engine.then(resolve, reject).finally(() => signal?.removeEventListener("abort", onAbort));
    });
  }

  #left(): Result {
    if (!this.#aborted) return DONE;
    this.#end();
    return {
      done: false,
      value: {
        requestId: this.#request.requestId ?? "",
        text: "",
        tokens: [],
        promptTokens: 0,
        completionTokens: 0,
        cachedTokens: 0,
        finish: { type: "abort", message: "Abort before prefill" },
      },
    };
  }

  #end(): void {
    const isBegun = this.#state === "waiting" || this.#state === "running";
    this.#state = "over";
    if (isBegun) this.#options.end();
  }
}
