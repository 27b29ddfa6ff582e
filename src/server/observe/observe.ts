/**
 * Watches requests on their way through an engine, for metrics and logs.
 *
 * @module
 */
import type {
  FinishReason,
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
} from "../../generation.ts";
import { layerOver } from "../engine_layer.ts";

/** How a request ended: as it should, before its end, or not at all. */
export type Outcome =
  | { readonly type: "finished"; readonly finish: FinishReason }
  | { readonly type: "aborted"; readonly message: string }
  | { readonly type: "failed"; readonly error: unknown };

/** Is told the course of one request. It must not throw. */
export interface RequestObserver {
  chunk(chunk: GenerationChunk): void;
  /** Called once, after the last chunk. */
  end(outcome: Outcome): void;
}

/** Called with each request when it begins; undefined where it does not watch that one. */
export type EngineObserver = (request: GenerationRequest) => RequestObserver | undefined;

/** The same engine, whose requests are watched. Without observers it is the engine itself. */
export function observe(
  engine: GenerationEngine,
  observers: readonly EngineObserver[],
): GenerationEngine {
  if (observers.length === 0) return engine;
  return layerOver(engine, {
    generate: (request) =>
      new ObservedStream(engine.generate(request)[Symbol.asyncIterator](), () =>
        observers.map((begin) => begin(request)).filter((one) => one !== undefined),
      ),
  });
}

/** Begins with the first `next`, as the request itself does. */
class ObservedStream implements AsyncIterableIterator<GenerationChunk, undefined> {
  readonly #chunks: AsyncIterator<GenerationChunk>;
  readonly #begin: () => readonly RequestObserver[];
  #observers: readonly RequestObserver[] | undefined;
  #ended = false;

  constructor(chunks: AsyncIterator<GenerationChunk>, begin: () => readonly RequestObserver[]) {
    this.#chunks = chunks;
    this.#begin = begin;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<GenerationChunk, undefined>> {
    this.#observers ??= this.#begin();
    try {
      const result = await this.#chunks.next();
      if (!result.done) {
        this.#tell(result.value);
        return result;
      }
      this.#end(LEFT);
      return { done: true, value: undefined };
    } catch (error) {
      const isAbort = error instanceof DOMException && error.name === "AbortError";
      this.#end(isAbort ? LEFT : { type: "failed", error });
      throw error;
    }
  }

  async return(): Promise<IteratorResult<GenerationChunk, undefined>> {
    this.#end(LEFT);
    await this.#chunks.return?.();
    return { done: true, value: undefined };
  }

  #tell(chunk: GenerationChunk): void {
    if (this.#ended) return;
    for (const observer of this.#observers ?? []) observer.chunk(chunk);
    const { finish } = chunk;
    if (finish?.type === "abort") this.#end({ type: "aborted", message: finish.message });
    else if (finish !== null) this.#end({ type: "finished", finish });
  }

  #end(outcome: Outcome): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const observer of this.#observers ?? []) observer.end(outcome);
  }
}

const LEFT: Outcome = { type: "aborted", message: "the client left" };
