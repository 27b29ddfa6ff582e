/**
 * Tells after every step how even the work of ranks is, and has been.
 *
 * @module
 */
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import { balancednessOf, type TakeCounts } from "./expert_recorder.ts";

/** How even the work of ranks was: the mean of all ranks over the most of one, over layers and steps. */
export interface BalanceReport {
  /** Number of the step, from 0. */
  readonly forwardPass: number;
  readonly current: number;
  /** Averages of the last steps, this one among them. */
  readonly last10: number;
  readonly last100: number;
  readonly last1000: number;
  /** Choices of all rows in all layers. */
  readonly choices: number;
}

const WINDOWS = [10, 100, 1000] as const;
const MOST_KEPT = 1000;

export class BalanceWatch {
  readonly #layout: () => ExpertLayout | undefined;
  readonly #onBalance: (report: BalanceReport) => void;
  readonly #kept: number[] = [];
  #number = 0;

  constructor(layout: () => ExpertLayout | undefined, onBalance: (report: BalanceReport) => void) {
    this.#layout = layout;
    this.#onBalance = onBalance;
  }

  /** To be called for every step: takes what it has chosen. */
  nextStep(): TakeCounts {
    const forwardPass = this.#number++;
    return (counts) => {
      const current = balancednessOf(counts, this.#layout());
      if (this.#kept.push(current) > MOST_KEPT) this.#kept.shift();
      const [last10, last100, last1000] = WINDOWS.map((steps) => meanOf(this.#kept.slice(-steps)));
      const choices = counts.counts.reduce((sum, count) => sum + count, 0);
      const averages = { last10: last10!, last100: last100!, last1000: last1000! };
      this.#onBalance({ forwardPass, current, ...averages, choices });
    };
  }
}

const meanOf = (values: readonly number[]) =>
  values.reduce((sum, value) => sum + value, 0) / values.length;
