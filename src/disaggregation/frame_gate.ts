/**
 * How many messages with pages of all rooms together are on their way: each holds its bytes in memory
 * until it is in place.
 *
 * @module
 */

export class FrameGate {
  readonly #limit: number;
  #used = 0;
  #waiting: (() => void)[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  get used(): number {
    return this.#used;
  }

  /** Takes a place, in the order in which it was asked for. */
  async enter(): Promise<void> {
    if (this.#used < this.#limit) {
      this.#used += 1;
      return;
    }
    await new Promise<void>((resolve) => {
      this.#waiting.push(resolve);
    });
  }

  /** Gives places back: the next ones that wait have them. */
  leave(count = 1): void {
    for (let i = 0; i < count; i++) {
      const next = this.#waiting.shift();
      if (next === undefined) this.#used -= 1;
      else next();
    }
  }
}
