/**
 * How many drafts of n-grams are verified, down to none, where the number follows what drafts bring
 * and cost. A sequence whose drafts do not pay has none looked up for a while: its steps then run
 * ahead like those without drafts.
 *
 * @module
 */
import type { DraftHistory, DraftLengthController } from "../../speculation/draft_length.ts";
import type { Sequence } from "../schedule/sequence.ts";
import type { DraftChoice } from "./draft_choice.ts";
import type { DraftWork } from "./draft_work.ts";

/** Times that a sequence gets tokens before drafts of it are looked up again. */
const RESTING = 32;

const NONE: DraftWork = { steps: 0, enters: false, countOf: () => 0 };

export class AdaptiveNgrams implements DraftChoice {
  readonly #controller: DraftLengthController;
  readonly #histories = new WeakMap<Sequence, DraftHistory>();

  constructor(controller: DraftLengthController) {
    this.#controller = controller;
  }

  limits(sequences: readonly Sequence[]): ReadonlyMap<Sequence, number> {
    const drafted = sequences.filter(({ pending, drafts }) => pending === 0 && drafts.length > 0);
    if (drafted.length === 0) {
      this.#controller.skip();
      return new Map();
    }
    const given = drafted.map((sequence) => ({
      history: this.#historyOf(sequence),
      most: sequence.drafts.length,
    }));
    const { verified } = this.#controller.choose(given, sequences.length - drafted.length);
    drafted.forEach((sequence, i) => {
      if (verified[i] === 0) sequence.drafting!.rest(RESTING);
    });
    return new Map(drafted.map((sequence, i) => [sequence, verified[i]!]));
  }

  workOf(): DraftWork {
    return NONE;
  }

  verified(sequence: Sequence, verified: number, accepted: number): void {
    if (verified > 0) this.#controller.record(this.#historyOf(sequence), verified, accepted);
  }

  #historyOf(sequence: Sequence): DraftHistory {
    const known = this.#histories.get(sequence) ?? this.#controller.history();
    this.#histories.set(sequence, known);
    return known;
  }
}
