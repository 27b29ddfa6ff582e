/**
 * Choices of a seeded generator.
 *
 * @module
 */
import { seeded } from "../seeded.ts";

export class Random {
  readonly next: () => number;

  constructor(seed: number) {
    this.next = seeded(seed);
  }

  /** A whole number in [0, count). */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)]!;
  }

  /** True in one of `times` cases. */
  oneIn(times: number): boolean {
    return this.below(times) === 0;
  }
}
