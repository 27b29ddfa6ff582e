/**
 * How many requests are sent to workers at once, how many a second, and how many may wait for that.
 *
 * @module
 */
import { HttpError } from "../http/error_response.ts";

export interface AdmissionOptions {
  /** Requests at once, streams until their ends. */
  readonly maxConcurrentRequests: number;
  /** Requests that may wait; one more is refused. */
  readonly queueSize: number;
  /** Milliseconds that a request may wait. */
  readonly queueTimeout: number;
  /** Requests that begin in a second; as many may begin at once. Default: no limit. */
  readonly requestsPerSecond?: number | undefined;
}

interface Waiting {
  readonly start: () => void;
}

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #queue = new Set<Waiting>();
  #running = 0;
  /** Requests that may begin by the rate. */
  #tokens: number;
  #filledAt = performance.now();
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#tokens = Math.max(options.requestsPerSecond ?? 0, 1);
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#queue.size;
  }

  /**
   * Waits until a request may begin.
   *
   * @returns To be called once when it has ended.
   * @throws {HttpError} `rate_limited` when too many wait, `timed_out` when it has waited too long.
   * @throws the signal's reason.
   */
  async enter(signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#queue.size === 0 && this.#mayBegin()) this.#begin();
    else await this.#wait(signal);
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#running -= 1;
      this.#startWaiting();
    };
  }

  #wait(signal: AbortSignal): Promise<void> {
    const { queueSize, queueTimeout } = this.#options;
    if (this.#queue.size >= queueSize) {
      const state = `${this.#running} run and ${this.#queue.size} wait, which are the most`;
      return Promise.reject(
        new HttpError("rate_limited", `Cannot take one more request: ${state}`),
      );
    }
    return new Promise((resolve, reject) => {
      const leave = (reason: unknown) => {
        end();
        reject(reason);
      };
      const onAbort = () => leave(signal.reason);
      const timer = setTimeout(() => {
        const state = `it has waited ${queueTimeout / 1000} seconds for others to end`;
        leave(new HttpError("timed_out", `Cannot begin the request: ${state}`));
      }, queueTimeout);
      const waiting: Waiting = {
        start: () => {
          end();
          resolve();
        },
      };
      const end = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onAbort);
        this.#queue.delete(waiting);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#queue.add(waiting);
      this.#awaitToken();
    });
  }

  #mayBegin(): boolean {
    return this.#running < this.#options.maxConcurrentRequests && this.#timeToToken() <= 0;
  }

  #begin(): void {
    this.#running += 1;
    if (this.#options.requestsPerSecond !== undefined) this.#tokens -= 1;
  }

  #startWaiting(): void {
    for (const waiting of this.#queue) {
      if (!this.#mayBegin()) break;
      this.#begin();
      waiting.start();
    }
    this.#awaitToken();
  }

  /** Milliseconds until the rate lets another request begin. */
  #timeToToken(): number {
    const { requestsPerSecond } = this.#options;
    if (requestsPerSecond === undefined) return 0;
    const now = performance.now();
    const filled = this.#tokens + ((now - this.#filledAt) / 1000) * requestsPerSecond;
    this.#tokens = Math.min(filled, Math.max(requestsPerSecond, 1));
    this.#filledAt = now;
    return this.#tokens >= 1 ? 0 : ((1 - this.#tokens) / requestsPerSecond) * 1000;
  }

  /** Where only the rate keeps those that wait. */
  #awaitToken(): void {
    clearTimeout(this.#timer);
    if (this.#queue.size === 0 || this.#running >= this.#options.maxConcurrentRequests) return;
    this.#timer = setTimeout(() => this.#startWaiting(), Math.ceil(this.#timeToToken()));
  }
}
