/**
 * A circuit breaker: a worker that fails again and again is left alone for a while.
 *
 * @module
 */

export const BREAKER_STATES = ["closed", "open", "half-open"] as const;
export type BreakerState = (typeof BREAKER_STATES)[number];

/**
 * How a request to a worker went. A worker that is busy is neither: it answers, and asks for less, so
 * that an open breaker would only send its share to workers that are as busy.
 */
export type Outcome = "success" | "failure" | "busy";

export interface BreakerOptions {
  /** Failures in a row that open it; `Infinity` never does. */
  readonly failureThreshold: number;
  /** Successes in a row, once it is half open, that close it. */
  readonly successThreshold: number;
  /** Milliseconds that it stays open. */
  readonly openTime: number;
  /** Milliseconds after which a failure no longer counts. */
  readonly window: number;
}

export class CircuitBreaker {
  readonly #options: BreakerOptions;
  readonly #onChange: (from: BreakerState, to: BreakerState) => void;
  readonly #now: () => number;
  #state: BreakerState = "closed";
  #failures = 0;
  #successes = 0;
  /** Of the last failure, in milliseconds. */
  #failedAt = 0;

  /** @param now Milliseconds. */
  constructor(
    options: BreakerOptions,
    onChange: (from: BreakerState, to: BreakerState) => void = () => {},
    now: () => number = () => performance.now(),
  ) {
    this.#options = options;
    this.#onChange = onChange;
    this.#now = now;
  }

  get state(): BreakerState {
    const isOver = this.#now() - this.#failedAt >= this.#options.openTime;
    if (this.#state === "open" && isOver) this.#change("half-open");
    return this.#state;
  }

  record(outcome: Outcome): void {
    const { state } = this;
    if (outcome === "busy") return;
    if (outcome === "failure") {
      const now = this.#now();
      if (now - this.#failedAt > this.#options.window) this.#failures = 0;
      this.#failures += 1;
      this.#failedAt = now;
      const isEnough = this.#failures >= this.#options.failureThreshold;
      if (state === "half-open" || (state === "closed" && isEnough)) this.#change("open");
      return;
    }
    this.#failures = 0;
    if (state !== "half-open") return;
    this.#successes += 1;
    if (this.#successes >= this.#options.successThreshold) this.#change("closed");
  }

  #change(to: BreakerState): void {
    const from = this.#state;
    this.#state = to;
    this.#successes = 0;
    if (to !== "open") this.#failures = 0;
    this.#onChange(from, to);
  }
}
