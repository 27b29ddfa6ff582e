/**
 * A signal that ends with another one, or alone.
 *
 * @module
 */

export class Follower {
  readonly #leader: AbortSignal;
  readonly #own = new AbortController();
  readonly #onAbort = () => this.#own.abort(this.#leader.reason);

  constructor(leader: AbortSignal) {
    this.#leader = leader;
    leader.addEventListener("abort", this.#onAbort, { once: true });
    if (leader.aborted) this.#onAbort();
  }

  get signal(): AbortSignal {
    return this.#own.signal;
  }

  /** Ends alone. */
  abort(reason: unknown): void {
    this.release();
    this.#own.abort(reason);
  }

  /** Follows no more. */
  release(): void {
    this.#leader.removeEventListener("abort", this.#onAbort);
  }
}
