/**
 * How many drafts a step verifies and makes: the interface that the scheduler asks, and its answer
 * where the number never changes.
 *
 * @module
 */
import type { Chunk } from "../schedule/scheduled_step.ts";
import type { Sequence } from "../schedule/sequence.ts";
import type { DraftJudge, DraftWork } from "./draft_work.ts";

export interface DraftChoice extends DraftJudge {
  /**
   * Lets go of drafts on the host that are not worth waiting for: a sequence that has some has no row
   * in the steps that run ahead. Told once a step, when its results are known.
   *
   * @param running Sequences that run.
   */
  known(running: ReadonlySet<Sequence>): void;
  /**
   * Of drafts that a sequence has on the host, how many the next step verifies. Told once a step, for
   * all of its sequences whose next rows are of generated tokens.
   */
  limits(sequences: readonly Sequence[]): ReadonlyMap<Sequence, number> | undefined;
  /**
   * What a step makes.
   *
   * @param chunks Its rows.
   * @param running Sequences that run, those without a row in the step among them.
   */
  workOf(chunks: readonly Chunk[], running: number): DraftWork;
}

/** As many drafts as there can be. */
export class AllDrafts implements DraftChoice {
  readonly #work: DraftWork;

  /** @param steps Drafts that steps make for each sequence, 0 where they make none. */
  constructor(steps: number) {
    this.#work = { steps, enters: steps > 0, countOf: () => steps };
  }

  known(): void {
    // All are waited for.
  }

  limits(): undefined {
    return undefined;
  }

  workOf(): DraftWork {
    return this.#work;
  }

  verified(): void {
    // It changes nothing.
  }
}
