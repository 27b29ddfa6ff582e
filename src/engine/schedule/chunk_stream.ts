/**
 * Chunks on their way from the engine's loop to the caller that iterates over them.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { GenerationChunk } from "../../generation.ts";

type Result = IteratorResult<GenerationChunk, undefined>;

export interface ChunkStreamOptions {
  /** Called once, at the first `next`; what it throws ends the stream. */
  readonly start: () => void;
  /** Called once, when the stream that was started ends: by its last chunk, an error, or a consumer that leaves. */
  readonly stop: () => void;
  /** Tokens that a chunk waits for, after the first one's. Default 1. */
  readonly interval?: number | undefined;
  /** Called for each chunk that the consumer gets. */
  readonly onTaken?: () => void;
}

/** One request's iterator. It starts nothing until the first `next`. */
export class ChunkStream implements AsyncIterableIterator<GenerationChunk, undefined> {
  readonly #options: ChunkStreamOptions;
  readonly #ready: GenerationChunk[] = [];
  #waiting: { resolve(result: Result): void; reject(error: unknown): void } | undefined;
  #started = false;
  #ended = false;
  #error: { readonly reason: unknown } | undefined;
  /** Chunks that together have too few tokens, and how many those are. */
  #held: GenerationChunk[] = [];
  #heldTokens = 0;

  constructor(options: ChunkStreamOptions) {
    this.#options = options;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  push(chunk: GenerationChunk): void {
    if (this.#ended) return;
    this.#ended = chunk.finish !== null;
    this.#held.push(chunk);
    this.#heldTokens += chunk.tokens.length;
    if (!this.#isTooShort(chunk)) this.#handHeld();
    if (this.#ended) this.#options.stop();
  }

  #isTooShort({ completionTokens, finish }: GenerationChunk): boolean {
    const isFirst = completionTokens === this.#heldTokens;
    return finish === null && !isFirst && this.#heldTokens < (this.#options.interval ?? 1);
  }

  #handHeld(): void {
    const held = this.#held;
    this.#held = [];
    this.#heldTokens = 0;
    if (held.length > 0) this.#hand(held.length === 1 ? held[0]! : join(held));
  }

  #hand(chunk: GenerationChunk): void {
    if (this.#waiting === undefined) this.#ready.push(chunk);
    else {
      this.#waiting.resolve({ done: false, value: chunk });
      this.#options.onTaken?.();
    }
    this.#waiting = undefined;
  }

  /** Ends the stream with an error, after what is ready. */
  fail(reason: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#handHeld();
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
    if (value !== undefined) {
      this.#options.onTaken?.();
      return Promise.resolve({ done: false, value });
    }
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
    this.#held = [];
    this.#ready.length = 0;
    this.#waiting?.resolve({ done: true, value: undefined });
    this.#waiting = undefined;
    if (running) this.#options.stop();
    return Promise.resolve({ done: true, value: undefined });
  }
}

/** @throws {InvalidRequestError} when it is no number of tokens. */
export function requireInterval(interval: number | undefined): void {
  if (interval === undefined || (Number.isSafeInteger(interval) && interval >= 1)) return;
  throw new InvalidRequestError(
    `streamInterval must be a whole number of at least 1, got ${interval}`,
    "streamInterval",
  );
}

/** What a request ends with whose signal is aborted. */
export function abortError(): DOMException {
  return new DOMException("The request is aborted", "AbortError");
}

/** Chunks that follow each other, as one. */
function join(chunks: readonly GenerationChunk[]): GenerationChunk {
  const latest: Partial<GenerationChunk> = {};
  for (const chunk of chunks) Object.assign(latest, chunk);
  const logprobs = chunks.flatMap((chunk) => chunk.logprobs ?? []);
  return {
    ...(latest as GenerationChunk),
    text: chunks.map(({ text }) => text).join(""),
    tokens: chunks.flatMap(({ tokens }) => tokens),
    ...(logprobs.length > 0 && { logprobs }),
  };
}
