/**
 * How long steps take, by their rows: measured at some numbers of rows, and read between them.
 *
 * @module
 */
import { KernelError } from "../errors.ts";

/** One measurement. */
export interface MeasuredStep {
  /** At least 1. */
  readonly rows: number;
  /** Above 0. */
  readonly ms: number;
}

/** Milliseconds of a step, by its rows. */
export interface CostOfRows {
  /** At least 0; 0 where there are no rows, or they cost nothing. */
  of(rows: number): number;
}

export class StepCost implements CostOfRows {
  readonly #points: readonly MeasuredStep[];

  /**
   * @param points In ascending order of rows; none for what costs nothing. More rows that were
   *   measured to take less time take as long as fewer: measurements scatter.
   * @throws {KernelError} where they are not in order, or no times.
   */
  constructor(points: readonly MeasuredStep[]) {
    const rising: MeasuredStep[] = [];
    for (const { rows, ms } of points) {
      const before = rising.at(-1) ?? { rows: 0, ms: 0 };
      if (!(rows > before.rows && ms > 0 && Number.isFinite(ms))) {
        throw new KernelError("costs of steps", `${rows} rows in ${ms} ms after ${before.rows}`);
      }
      rising.push({ rows, ms: Math.max(ms, before.ms) });
    }
    this.#points = rising;
  }

  /**
   * Milliseconds of a step: on a line between two measurements, the first one's below it, and in
   * proportion to rows beyond the last, which is the most that it can be.
   */
  of(rows: number): number {
    const points = this.#points;
    const last = points.at(-1);
    if (rows <= 0 || last === undefined) return 0;
    if (rows >= last.rows) return (last.ms * rows) / last.rows;
    const above = points.findIndex((point) => point.rows > rows);
    const high = points[above]!;
    const low = points[above - 1];
    if (low === undefined) return high.ms;
    return low.ms + ((high.ms - low.ms) * (rows - low.rows)) / (high.rows - low.rows);
  }
}

/** A step of generated tokens and drafts, without rows of prompts. */
export interface StepSize {
  readonly sequences: number;
  /** Of all of them, drafts among them. */
  readonly rows: number;
  /** Rows of the sequence that has most, at least 1. */
  readonly longest: number;
}

/** What a step with drafts takes. */
export interface StepCosts {
  /** Rows that such a step computes, those of padding among them. Default: those that it has. */
  readonly computed?: ((step: StepSize) => number) | undefined;
  /** A step of the target, whose rows are those of all sequences, drafts among them. */
  readonly target: CostOfRows;
  /** What so many rows take more where they enter the draft's cache; nothing where it has none. */
  readonly entering: CostOfRows;
  /** What so many rows take more where no step runs ahead, as drafts are made on the host. Default nothing. */
  readonly waiting?: CostOfRows;
  /** One draft for each of so many sequences; it costs nothing where drafts need no model. */
  readonly draft: CostOfRows;
  /**
   * Takes note of a step that has run. Absent where the costs stay what they are.
   *
   * @param ms From the end of the step before.
   * @param isAlone Whether it was submitted while no other was in flight.
   */
  took?(step: StepSize, ms: number, isAlone: boolean): void;
}

/** Rows that a step computes. */
export function computedRows({ computed }: Pick<StepCosts, "computed">, step: StepSize): number {
  return computed?.(step) ?? step.rows;
}

/** A step of so many sequences without drafts. */
export const plainStep = (sequences: number): StepSize => ({
  sequences,
  rows: sequences,
  longest: 1,
});
