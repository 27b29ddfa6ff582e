/**
 * A sum over the last seconds.
 *
 * @module
 */
export class RecentSum {
  /** What was added in each second, that of second s at s modulo their number. */
  readonly #sums: number[];
  #second: number;

  constructor(seconds: number) {
    this.#sums = new Array<number>(seconds).fill(0);
    this.#second = currentSecond();
  }

  add(amount: number): void {
    this.#forget();
    const at = this.#second % this.#sums.length;
    this.#sums[at] = this.#sums[at]! + amount;
  }

  get sum(): number {
    this.#forget();
    return this.#sums.reduce((total, amount) => total + amount, 0);
  }

  /** Empties the seconds that have come round again. */
  #forget(): void {
    const now = currentSecond();
    const passed = Math.min(now - this.#second, this.#sums.length);
    for (let i = 0; i < passed; i++) this.#sums[(now - i) % this.#sums.length] = 0;
    this.#second = now;
  }
}

function currentSecond(): number {
  return Math.floor(performance.now() / 1000);
}
