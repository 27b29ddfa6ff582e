/**
 * Chunks on their way from the engine's loop to whoever iterates over them.
 *
 * @module
 */
import type { GenerationChunk } from "../generation.ts";

type Result = IteratorResult<GenerationChunk, undefined>;

export interface ChunkStreamOptions {
  /** Called once, at the first `next`; what it throws ends the stream. */
  readonly start: () => void;
  /** Called once, when the stream that was started ends: by its last chunk, an error, or a consumer that leaves. */
  readonly stop: () => void;
}

/** One request's iterator. It starts nothing until the first `next`. */
export class ChunkStream implements AsyncIterableIterator<GenerationChunk, undefined> {
  readonly #options: ChunkStreamOptions;
  readonly #ready: GenerationChunk[] = [];
  #waiting: { resolve(result: Result): void; reject(error: unknown): void } | undefined;
  #started = false;
  #ended = false;
  #error: { readonly reason: unknown } | undefined;

  constructor(options: ChunkStreamOptions) {
    this.#options = options;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  push(chunk: GenerationChunk): void {
    if (this.#ended) return;
    this.#ended = chunk.finish !== null;
    if (this.#waiting === undefined) this.#ready.push(chunk);
    else this.#waiting.resolve({ done: false, value: chunk });
    this.#waiting = undefined;
    if (this.#ended) this.#options.stop();
  }

  /** Ends the stream with an error, after what is ready. */
  fail(reason: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#waiting === undefined) this.#error = { reason };
    else this.#waiting.reject(reason);
    this.#waiting = undefined;
    this.#options.stop();
  }

  next(): Promise<Result> {
    if (!this.#started) {
      this.#started = true;
      try {
        this.#options.start();
      } catch (error) {
        this.fail(error);
      }
    }
    const value = this.#ready.shift();
    if (value !== undefined) return Promise.resolve({ done: false, value });
    if (this.#error !== undefined) {
      const { reason } = this.#error;
      this.#error = undefined;
      return Promise.reject(reason);
    }
    if (this.#ended) return Promise.resolve({ done: true, value: undefined });
    return new Promise((resolve, reject) => {
      this.#waiting = { resolve, reject };
    });
  }

  return(): Promise<Result> {
    const running = this.#started && !this.#ended;
    this.#started = true;
    this.#ended = true;
    this.#error = undefined;
    this.#ready.length = 0;
    this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
    if (running) this.#options.stop();
    return Promise.resolve({ done: true, value: undefined });
  }
}
