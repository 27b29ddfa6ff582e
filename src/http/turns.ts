/**
 * Long work in slices, between which other work of the thread has its turns.
 *
 * @module
 */

/** Milliseconds of a slice. */
const SLICE_MS = 4;

export class Turns {
  #since = performance.now();

  /** Whether the slice has been long enough. */
  get isDue(): boolean {
    return performance.now() - this.#since >= SLICE_MS;
  }

  /** Resolves at once, or, where it is due, when timers, sockets and other requests had a turn. */
  async take(): Promise<void> {
    if (!this.isDue) return;
    await new Promise<void>((resolve) => setTimeout(resolve));
    this.#since = performance.now();
  }
}
