/**
 * Responses that clients may ask for again or go on from, in memory: the newest uses stay, within a
 * number of responses and of bytes.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { ChatMessage } from "../../generation.ts";
import { HttpError } from "../../http/error_response.ts";

/** Responses that are kept at most. */
export const MAX_RESPONSES = 1024;
/** What they hold at most together, with the conversations that they end. */
export const MAX_RESPONSE_BYTES = 2 ** 26;

export interface StoredResponse {
  readonly id: string;
  /** As its client was told. */
  readonly wire: object;
  /** All that was said, the answer as well, without instructions. */
  readonly messages: readonly ChatMessage[];
  /** Those of `messages`, in order. */
  readonly images: readonly Uint8Array[];
  /** Bytes of it all; what it has in common with other responses counts for each. */
  readonly bytes: number;
}

export class ResponseStore {
  readonly #maxCount: number;
  readonly #maxBytes: number;
  /** In the order of their last use. */
  readonly #responses = new Map<string, StoredResponse>();
  #bytes = 0;

  constructor({ maxCount = MAX_RESPONSES, maxBytes = MAX_RESPONSE_BYTES } = {}) {
    this.#maxCount = maxCount;
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#responses.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Keeps it in place of those that were not used for longest; one that is too large is not kept. */
  add(response: StoredResponse): void {
    if (response.bytes > this.#maxBytes) return;
    this.#responses.set(response.id, response);
    this.#bytes += response.bytes;
    for (const { id } of this.#responses.values()) {
      if (this.#responses.size <= this.#maxCount && this.#bytes <= this.#maxBytes) return;
      this.#forget(id);
    }
  }

  /** @throws {HttpError} when it is not kept, or no more. */
  get(id: string): StoredResponse {
    const response = this.#use(id);
    if (response !== undefined) return response;
    throw new HttpError("not_found", `Cannot find the response ${quoted(id)}: it is not kept here`);
  }

  /** The same for a request that goes on from it. @throws {InvalidRequestError} */
  previous(id: string): StoredResponse {
    const response = this.#use(id);
    if (response !== undefined) return response;
    const field = "previous_response_id";
    const problem = `the response ${quoted(id)} is not kept here`;
    throw new InvalidRequestError(`Cannot use ${field}: ${problem}`, field);
  }

  /** @throws {HttpError} when it is not kept. */
  delete(id: string): void {
    this.get(id);
    this.#forget(id);
  }

  #use(id: string): StoredResponse | undefined {
    const response = this.#responses.get(id);
    if (response === undefined) return undefined;
    this.#responses.delete(id);
    this.#responses.set(id, response);
    return response;
  }

  #forget(id: string): void {
    this.#bytes -= this.#responses.get(id)?.bytes ?? 0;
    this.#responses.delete(id);
  }
}

function quoted(id: string): string {
  return JSON.stringify(id.slice(0, 100));
}
