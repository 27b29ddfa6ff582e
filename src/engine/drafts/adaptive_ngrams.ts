/**
 * How many drafts of n-grams are verified, down to none, where the number follows what drafts bring
 * and cost. Drafts that are found hold a sequence back only where it gains by that: else its steps run
 * ahead like those without drafts.
 *
 * Drafts are looked up behind every token, and the next token tells whether the first of them was
 * right, verified or not. So what drafts would bring is known without a step that tries them.
 *
 * @module
 */
import type { DraftHistory, DraftingSequence } from "../../speculation/draft_history.ts";
import type { DraftLengthController } from "../../speculation/draft_length.ts";
import type { Sequence } from "../schedule/sequence.ts";
import type { DraftChoice } from "./draft_choice.ts";
import type { DraftWork } from "./draft_work.ts";

const NONE: DraftWork = { steps: 0, enters: false, countOf: () => 0 };

/** What is known of a sequence. */
interface Known {
  readonly history: DraftHistory;
  /** Tokens that it had when drafts were looked up last. */
  length: number;
  /** The first of these drafts, until it is known whether it is right. */
  first: number | undefined;
  /** Tokens of the match that they go on with. */
  matched: number;
}

export class AdaptiveNgrams implements DraftChoice {
  readonly #controller: DraftLengthController;
  readonly #known = new WeakMap<Sequence, Known>();

  /** @param controller One that needs no probes. */
  constructor(controller: DraftLengthController) {
    this.#controller = controller;
  }

  known(running: ReadonlySet<Sequence>): void {
    const drafted: Sequence[] = [];
    for (const one of running) {
      this.#observe(one);
      if (one.pending > 0 && one.drafts.length > 0) drafted.push(one);
    }
    this.#keepWaiting(drafted, running.size - drafted.length);
  }

  limits(sequences: readonly Sequence[]): ReadonlyMap<Sequence, number> {
    const found = sequences.filter(({ pending, drafts }) => pending === 0 && drafts.length > 0);
    // What they have waited for is there: nothing is to be gained by going on without it.
    const drafted = this.#keepWaiting(found, sequences.length - found.length, 0);
    if (drafted.length === 0) return new Map();
    const given = drafted.map((sequence) => this.#drafting(sequence));
    const tokens = sequences.length - drafted.length;
    const { verified } = this.#controller.choose(given, { tokens });
    drafted.forEach((sequence, i) => {
      if (verified[i] === 0) sequence.drafting!.clear();
    });
    return new Map(drafted.map((sequence, i) => [sequence, verified[i]!]));
  }

  workOf(): DraftWork {
    return NONE;
  }

  verified(sequence: Sequence, verified: number, accepted: number): void {
    if (verified === 0) return;
    const known = this.#knownOf(sequence);
    this.#controller.record(known.history, verified, accepted, known.matched);
    known.first = undefined;
  }

  /** Takes note of whether the drafts that were found last began with what was drawn, and of new ones. */
  #observe(sequence: Sequence): void {
    const { tokens, drafts, drafting } = sequence;
    const known = this.#knownOf(sequence);
    if (tokens.length === known.length) return;
    const { history, first, matched } = known;
    if (first !== undefined) {
      this.#controller.record(history, 1, tokens[known.length] === first ? 1 : 0, matched);
    }
    known.length = tokens.length;
    known.first = drafts[0];
    known.matched = drafting?.matched ?? 0;
  }

  /** Has those that do not gain by waiting let go of their drafts. */
  #keepWaiting(
    drafted: readonly Sequence[],
    others: number,
    leastGain?: number,
  ): readonly Sequence[] {
    if (drafted.length === 0) return drafted;
    const given = drafted.map((sequence) => this.#drafting(sequence));
    const waiting = this.#controller.whoWaits(given, others, leastGain);
    return drafted.filter((sequence, i) => {
      if (!waiting.has(i)) sequence.drafting!.clear();
      return waiting.has(i);
    });
  }

  #drafting(sequence: Sequence): DraftingSequence {
    const { history, matched } = this.#knownOf(sequence);
    return { history, most: sequence.drafts.length, matched };
  }

  #knownOf(sequence: Sequence): Known {
    const known = this.#known.get(sequence);
    if (known !== undefined) return known;
    const begun = { history: this.#controller.history(), length: 0, first: undefined, matched: 0 };
    this.#known.set(sequence, begun);
    return begun;
  }
}
