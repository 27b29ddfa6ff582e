/**
 * When a request ends before its answer does: its client has left, or its time is over.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";

/** What is thrown when the client has left: no worker's fault. */
export function clientLeft(): DOMException {
  return new DOMException("The client left", "AbortError");
}

export class RequestSignal {
  readonly #client: AbortSignal;
  readonly #controller = new AbortController();
  readonly #timer: ReturnType<typeof setTimeout>;
  readonly #onLeave = () => {
    this.#controller.abort(clientLeft());
  };

  /** @param timeout Milliseconds. */
  constructor(client: AbortSignal, timeout: number) {
    this.#client = client;
    const problem = `it has taken ${timeout / 1000} seconds, which is the most`;
    this.#timer = setTimeout(() => {
      const message = `Cannot finish the request: ${problem}`;
      this.#controller.abort(new HttpError("worker_timed_out", message));
    }, timeout);
    client.addEventListener("abort", this.#onLeave, { once: true });
    if (client.aborted) this.#onLeave();
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The request has ended. */
  release(): void {
    clearTimeout(this.#timer);
    this.#client.removeEventListener("abort", this.#onLeave);
  }
}
