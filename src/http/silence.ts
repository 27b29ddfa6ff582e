/**
 * Notices that another end is gone where no event tells: a thread after a crash, a server that is frozen
 * or whose network is cut.
 *
 * @module
 */

/** Milliseconds between two looks, and the looks in a row without a word after which it is gone. */
const LOOK_MS = 1000;
const SILENT_LOOKS = 20;

export interface SilenceWatchOptions {
  /** Milliseconds between two looks. Default 1000. */
  readonly interval?: number;
  /** Looks in a row without a word, after which it is gone. Default 20. */
  readonly looks?: number;
  /** Whether a call waits for the other end now. The watch rests when none does. */
  readonly isWaiting: () => boolean;
  /** Asks the other end for a word. */
  readonly ping: () => void;
  readonly onSilence: () => void;
}

export class SilenceWatch {
  readonly #options: SilenceWatchOptions;
  #timer: ReturnType<typeof setInterval> | undefined;
  /** Looks are counted, not time: a machine that slept has looked only once since. */
  #silent = 0;

  constructor(options: SilenceWatchOptions) {
    this.#options = options;
  }

  /** To be called when a call begins to wait. */
  start(): void {
    if (this.#timer !== undefined) return;
    this.#silent = 0;
    this.#timer = setInterval(() => this.#look(), this.#options.interval ?? LOOK_MS);
  }

  /** The other end has said something. */
  heard(): void {
    this.#silent = 0;
  }

  /** Rests until `start` is called again. */
  stop(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #look(): void {
    if (!this.#options.isWaiting()) {
      this.stop();
      return;
    }
    this.#silent += 1;
    if (this.#silent === 1) return;
    if (this.#silent <= (this.#options.looks ?? SILENT_LOOKS)) {
      this.#options.ping();
      return;
    }
    this.stop();
    this.#options.onSilence();
  }
}
