/**
 * Requests that have begun and are no sequences yet: their prompts are being tokenized.
 *
 * @module
 */
import { newRequestId } from "../generation.ts";
import type { ChunkStream } from "./schedule/chunk_stream.ts";

export class UnreadRequests {
  readonly #ids = new Map<ChunkStream, string>();

  get size(): number {
    return this.#ids.size;
  }

  /** @param requestId Default: one that no client knows. */
  add(stream: ChunkStream, requestId: string = newRequestId()): void {
    this.#ids.set(stream, requestId);
  }

  delete(stream: ChunkStream): void {
    this.#ids.delete(stream);
  }

  /** Ends requests with a last chunk that has no text; without an id all of them. */
  abort(requestId: string | undefined, message: string): void {
    for (const [stream, id] of [...this.#ids]) {
      if (requestId !== undefined && id !== requestId) continue;
      stream.push({
        requestId: id,
        text: "",
        tokens: [],
        promptTokens: 0,
        completionTokens: 0,
        cachedTokens: 0,
        finish: { type: "abort", message },
      });
    }
  }

  /** Ends all of them with an error. */
  fail(error: unknown): void {
    for (const stream of [...this.#ids.keys()]) stream.fail(error);
  }
}
