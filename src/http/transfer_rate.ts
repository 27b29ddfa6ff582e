/**
 * How fast a transfer goes, over its last seconds.
 *
 * @module
 */

/** Milliseconds over which the rate is taken. */
const WINDOW = 10_000;

interface Sample {
  readonly time: number;
  readonly done: number;
}

export class TransferRate {
  #samples: readonly Sample[] = [];

  /** @param time Milliseconds, of any clock that only goes on. */
  add(time: number, done: number): void {
    const recent = this.#samples.filter((sample) => time - sample.time <= WINDOW);
    const hasShrunk = done < (this.#samples.at(-1)?.done ?? 0);
    this.#samples = [...(hasShrunk ? [] : recent), { time, done }];
  }

  /** Undefined as long as nothing comes. */
  get bytesPerSecond(): number | undefined {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined) return undefined;
    const rate = ((last.done - first.done) / (last.time - first.time)) * 1000;
    return rate > 0 ? rate : undefined;
  }
}
