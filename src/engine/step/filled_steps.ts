/**
 * What steps of generated rows are filled up to, so that launches that are kept fit them.
 *
 * @module
 */
import type { StepSize } from "../../speculation/step_costs.ts";

/** A size of decode steps whose launches are kept. */
export interface FilledSize {
  readonly rows: number;
  readonly sequences: number;
}

/** Rows for each that a batch has, up to which it pays to fill up a step of sequences with several. */
const MOST_FILLED = 2;

export class FilledSteps {
  readonly #buckets: readonly number[];
  readonly #mostRows: number;

  /**
   * @param buckets Sequences of steps whose launches are kept, ascending.
   * @param limits Rows of a step, rows of it that may be sampled, sequences of it, at most each.
   */
  constructor(
    buckets: readonly number[],
    limits: Readonly<Record<"maxRows" | "maxSampledRows" | "maxSequences", number>>,
  ) {
    const { maxRows, maxSampledRows, maxSequences } = limits;
    this.#buckets = buckets.filter((size) => size <= Math.min(maxSequences, maxRows));
    this.#mostRows = Math.min(maxRows, maxSampledRows);
  }

  /**
   * The rows of so many sequences, as many of each as the longest has; undefined where the launches of a
   * step are recorded as they come, or there are none.
   */
  of({ sequences, rows, longest }: StepSize): FilledSize | undefined {
    const size = this.#buckets.find((one) => one >= sequences);
    if (size === undefined || rows === 0) return undefined;
    const filled = size * longest;
    const isWorth = longest === 1 || filled <= MOST_FILLED * rows;
    return filled <= this.#mostRows && isWorth ? { rows: filled, sequences: size } : undefined;
  }
}
