/**
 * Signs of life of the other end of a connection. Whatever it says is one.
 *
 * @module
 */

export interface HeartbeatOptions {
  /** Milliseconds from one sign of life to the next. */
  readonly interval: number;
  /** Intervals that may pass without any. */
  readonly misses: number;
}

export class Heartbeat {
  readonly #timer: ReturnType<typeof setInterval>;
  #missed = 0;

  /** @param onLost Called once, when too many are missing. */
  constructor(
    { interval, misses }: HeartbeatOptions,
    { beat, onLost }: { readonly beat: () => void; readonly onLost: (reason: string) => void },
  ) {
    this.#timer = setInterval(() => {
      this.#missed += 1;
      if (this.#missed > misses) {
        this.stop();
        onLost(`it has given no sign of life for ${(misses * interval) / 1000} s`);
        return;
      }
      beat();
    }, interval);
  }

  heard(): void {
    this.#missed = 0;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}
