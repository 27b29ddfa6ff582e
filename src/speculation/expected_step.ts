/**
 * What a step with drafts is expected to bring, and to take.
 *
 * @module
 */
import type { Candidate } from "./draft_history.ts";
import { computedRows, StepCost, type StepCosts } from "./step_costs.ts";

/** What a choice that replaces another one has to bring more, as a share. */
export const CLEARLY = 0.02;

const NO_COST = new StepCost([]);

/** Tokens and time of a step, as drafts join it. */
export class ExpectedStep {
  readonly #costs: StepCosts;
  readonly #sequences: number;
  readonly #plainRows: number;
  #drafts = 0;
  /** Those of drafts. */
  #tokens = 0;
  /** Of the sequence that has most: as many are made for each that drafts. */
  #longest = 0;
  #drafting = 0;

  /** @param step `runsAlone`: whether nothing runs ahead where there are drafts. */
  constructor(
    costs: StepCosts,
    sequences: number,
    step: { readonly plainRows: number; readonly runsAlone?: boolean },
  ) {
    const { plainRows, runsAlone = false } = step;
    this.#costs = runsAlone ? costs : { ...costs, waiting: NO_COST };
    this.#sequences = sequences;
    this.#plainRows = plainRows;
  }

  clear(): void {
    this.#drafts = 0;
    this.#tokens = 0;
    this.#longest = 0;
    this.#drafting = 0;
  }

  add({ index, probability }: Candidate): void {
    if (index === 0) this.#drafting++;
    this.#longest = Math.max(this.#longest, index + 1);
    this.#drafts++;
    this.#tokens += probability;
  }

  get tokens(): number {
    return this.#sequences + this.#tokens;
  }

  get ms(): number {
    const { target, entering, waiting, draft } = this.#costs;
    const rows = this.#rows;
    const plain = target.of(rows);
    if (this.#drafts === 0) return plain;
    const made = this.#longest * draft.of(this.#drafting);
    return plain + made + entering.of(rows) + (waiting?.of(rows) ?? 0);
  }

  /** Those that it computes. */
  get #rows(): number {
    const rows = this.#plainRows + this.#drafts;
    const sequences = this.#sequences;
    // Steps with rows of prompts are not filled up.
    if (this.#plainRows > sequences) return rows;
    return computedRows(this.#costs, { sequences, rows, longest: this.#longest + 1 });
  }

  get tokensPerMs(): number {
    return this.tokens / this.ms;
  }
}
