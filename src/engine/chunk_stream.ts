/**
 * Chunks on their way from the engine's loop to whoever iterates over them.
 *
 * @module
 */
import type { GenerationChunk } from "../generation.ts";

type Result = IteratorResult<GenerationChunk, undefined>;

/** One request's iterator. It starts nothing until the first `next`. */
export class ChunkStream implements AsyncIterableIterator<GenerationChunk, undefined> {
  readonly #start: (stream: ChunkStream) => void;
  readonly #stop: () => void;
  readonly #ready: GenerationChunk[] = [];
  #waiting: { resolve(result: Result): void; reject(error: unknown): void } | undefined;
  #started = false;
  #ended = false;
  #error: { readonly reason: unknown } | undefined;

  /**
   * @param start Called once, at the first `next`; what it throws ends the stream.
   * @param stop Called once, when the consumer leaves before the last chunk.
   */
  constructor(start: (stream: ChunkStream) => void, stop: () => void) {
    this.#start = start;
    this.#stop = stop;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  push(chunk: GenerationChunk): void {
    if (this.#ended) return;
    this.#ended = chunk.finish !== null;
    if (this.#waiting === undefined) {
      this.#ready.push(chunk);
      return;
    }
    this.#waiting.resolve({ done: false, value: chunk });
    this.#waiting = undefined;
  }

  /** Ends the stream with an error, after what is ready. */
  fail(reason: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    if (this.#waiting === undefined) this.#error = { reason };
    else this.#waiting.reject(reason);
    this.#waiting = undefined;
  }

  next(): Promise<Result> {
    if (!this.#started) {
      this.#started = true;
      try {
        this.#start(this);
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
    const left = this.#started && !this.#ended;
    this.#started = true;
    this.#ended = true;
    this.#ready.length = 0;
    this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
    if (left) this.#stop();
    return Promise.resolve({ done: true, value: undefined });
  }
}
