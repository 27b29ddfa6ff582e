/**
 * What steps take, by the table that was measured before the first of them and by every step since.
 *
 * A table of few short measurements is wrong where other work of the machine met them, and knows nothing
 * of what the host does between two steps of a request. So each step that has run corrects it: steps that
 * ran behind another one by one factor, those that nothing ran ahead of by another. Which rows take how
 * much longer than others stays the table's.
 *
 * @module
 */
import { type CostOfRows, computedRows, type StepCosts, type StepSize } from "./step_costs.ts";

/** The weight of a new step, once there were several: small, as steps that run ahead end in bursts. */
const NEWEST = 0.04;
/** Steps of a kind that the table is worth. */
const TABLE_WORTH = 8;
/** Steps of a size that all others of its kind are worth. */
const KIND_WORTH = 3;
/**
 * A step that took more times as long as was thought, as the first of a size may, counts as one of so many:
 * of those that run ahead the first of a burst takes the time of all.
 */
const MOST_RATIO = { ahead: 3, alone: 1.5 };
/**
 * What is left of a correction after each step that tells nothing of it: what was wrong, or is no longer
 * so, is tried again some hundred steps later.
 */
const KEPT = 0.998;
/** Factors between the table and what is seen, at most and, the other way, at least. */
const MOST_FACTOR = 8;

/** Up to so many rows each number of them is corrected by itself, beyond it each so many together. */
const OWN_SIZES = 64;

/** An average over steps, the newest of which count most. */
interface Average {
  value: number;
  count: number;
}

/** Steps of one kind: how many times the table's time they take, and those of a size what all take. */
class Corrections {
  readonly all: Average = { value: 1, count: TABLE_WORTH };
  readonly #sizes = new Map<number, Average>();
  readonly #mostRatio: number;

  constructor(mostRatio: number) {
    this.#mostRatio = mostRatio;
  }

  of(rows: number): number {
    return this.all.value * this.#ofSize(rows);
  }

  /** A step has run that tells nothing of these, unless it is added. */
  fade(): void {
    for (const own of this.#sizes.values()) own.count *= KEPT;
  }

  /** @param ratio What a step of so many rows took, to the table's time. */
  add(rows: number, ratio: number): void {
    const size = sizeOf(rows);
    const own = this.#sizes.get(size) ?? { value: 1, count: 0 };
    this.#sizes.set(size, own);
    const [all, relative] = [this.all.value, this.#ofSize(rows)];
    const seen = Math.min(ratio, this.#mostRatio * all * relative);
    add(this.all, seen / relative);
    add(own, seen / all);
  }

  #ofSize(rows: number): number {
    const own = this.#sizes.get(sizeOf(rows));
    if (own === undefined) return 1;
    return (own.count * own.value + KIND_WORTH) / (own.count + KIND_WORTH);
  }
}

function add(average: Average, value: number): void {
  average.count += 1;
  const weight = Math.max(NEWEST, 1 / average.count);
  average.value = within(average.value + weight * (value - average.value));
}

/** A number for all rows that are corrected alike. */
function sizeOf(rows: number): number {
  return rows <= OWN_SIZES ? rows : Math.ceil(rows / OWN_SIZES) * OWN_SIZES;
}

export class ObservedCosts implements StepCosts {
  readonly computed: StepCosts["computed"];
  readonly target: CostOfRows;
  readonly waiting: CostOfRows;
  readonly entering: CostOfRows;
  readonly draft: CostOfRows;
  readonly #table: StepCosts;
  readonly #ahead = new Corrections(MOST_RATIO.ahead);
  readonly #alone = new Corrections(MOST_RATIO.alone);

  /** @param table Of drafts that cost nothing: those of the host. */
  constructor(table: StepCosts) {
    const ofAhead = (rows: number) => this.#ahead.of(rows) * table.target.of(rows);
    const ofAlone = (rows: number) => this.#alone.of(rows) * this.#tableOf(rows, true);
    this.#table = table;
    this.computed = table.computed;
    this.target = { of: ofAhead };
    this.waiting = { of: (rows) => Math.max(ofAlone(rows) - ofAhead(rows), 0) };
    this.entering = table.entering;
    this.draft = table.draft;
  }

  took(step: StepSize, ms: number, isAlone: boolean): void {
    const rows = computedRows(this, step);
    const [own, other] = isAlone ? [this.#alone, this.#ahead] : [this.#ahead, this.#alone];
    const table = this.#tableOf(rows, isAlone);
    if (!(table > 0 && ms >= 0)) return;
    for (const kind of [own, other]) kind.fade();
    own.add(rows, ms / table);
    // A machine that is slower than it was, or faster, is so for all steps.
    other.all.value = within(other.all.value ** KEPT * own.all.value ** (1 - KEPT));
  }

  #tableOf(rows: number, isAlone: boolean): number {
    const { target, waiting } = this.#table;
    return target.of(rows) + (isAlone ? (waiting?.of(rows) ?? 0) : 0);
  }
}

function within(factor: number): number {
  return Math.min(Math.max(factor, 1 / MOST_FACTOR), MOST_FACTOR);
}
