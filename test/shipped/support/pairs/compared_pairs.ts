/**
 * Pairs that tests take in turn, and one server alone that all are compared with: as many tests go side
 * by side as there are pairs. A pair stays for the next test while it is as it should be.
 *
 * @module
 */
import type { PairOptions } from "./running_pair.ts";
import { type ComparedPair, comparedPair, serveAlone } from "./tiny_pair.ts";

export class ComparedPairs {
  readonly #start: () => Promise<ComparedPair>;
  /** Undefined: one that is started once a test takes it. */
  readonly #free: (ComparedPair | undefined)[];
  readonly #waiting: (() => void)[] = [];

  /** @param count How many there are at once. */
  constructor(options: PairOptions, count: number) {
    const alone = serveAlone(options.model);
    // Who takes a pair hears of it.
    alone.catch(() => {});
    this.#start = () => comparedPair(options, alone);
    this.#free = Array(count).fill(undefined);
  }

  /** Lends a pair to `work`; one that it fails with is ended. */
  async use<T>(work: (compared: ComparedPair) => Promise<T>): Promise<T> {
    while (this.#free.length === 0) {
      await new Promise<void>((resolve) => {
        this.#waiting.push(resolve);
      });
    }
    let compared = this.#free.pop();
    try {
      compared ??= await this.#start();
      const result = await work(compared);
      this.#free.push(compared);
      return result;
    } catch (error) {
      await compared?.pair.close();
      this.#free.push(undefined);
      throw error;
    } finally {
      this.#waiting.shift()?.();
    }
  }

  async close(): Promise<void> {
    for (const compared of this.#free) await compared?.pair.close();
  }
}
