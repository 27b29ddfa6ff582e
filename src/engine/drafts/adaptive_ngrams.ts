/**
 * How many drafts of n-grams are verified, down to none, where the number follows what drafts bring
 * and cost. Drafts that are found do not hold a sequence back unless they pay for that: until then its
 * steps run ahead like those without drafts. A sequence whose drafts do not pay once it has waited has
 * none looked up for a while.
 *
 * @module
 */
import type {
  DraftHistory,
  DraftingSequence,
  DraftLengthController,
} from "../../speculation/draft_length.ts";
import type { Sequence } from "../schedule/sequence.ts";
import type { DraftChoice } from "./draft_choice.ts";
import type { DraftWork } from "./draft_work.ts";

/** Times that a sequence gets tokens before drafts of it are looked up again. */
const RESTING = 32;

const NONE: DraftWork = { steps: 0, enters: false, countOf: () => 0 };

export class AdaptiveNgrams implements DraftChoice {
  readonly #controller: DraftLengthController;
  readonly #histories = new WeakMap<Sequence, DraftHistory>();

  /** A sequence that is waited for though that may not pay, until it is in a step again. */
  #probe: Sequence | undefined;

  constructor(controller: DraftLengthController) {
    this.#controller = controller;
  }

  known(running: ReadonlySet<Sequence>): void {
    const drafted: Sequence[] = [];
    for (const one of running) if (one.pending > 0 && one.drafts.length > 0) drafted.push(one);
    if (drafted.length === 0) return;
    const given = drafted.map((one) => this.#drafting(one));
    if (this.#controller.paysWaiting(given, running.size - drafted.length)) return;
    if (this.#probe === undefined || !running.has(this.#probe)) {
      this.#probe = this.#startsProbe(drafted, running.size);
    }
    for (const one of drafted) if (one !== this.#probe) one.drafting!.clear();
  }

  /** The sequence that is waited for to see what drafts are worth now: that with the longest match. */
  #startsProbe(drafted: readonly Sequence[], running: number): Sequence | undefined {
    const best = drafted.reduce((one, other) => {
      return other.drafts.length > one.drafts.length ? other : one;
    });
    return this.#controller.isProbeDue(this.#drafting(best), running - 1) ? best : undefined;
  }

  limits(sequences: readonly Sequence[]): ReadonlyMap<Sequence, number> {
    const hasWaited = this.#probe?.pending === 0;
    if (hasWaited) this.#probe = undefined;
    const drafted = sequences.filter(({ pending, drafts }) => pending === 0 && drafts.length > 0);
    if (drafted.length === 0) {
      this.#controller.skip();
      return new Map();
    }
    const given = drafted.map((sequence) => this.#drafting(sequence));
    const tokens = sequences.length - drafted.length;
    const { verified, isProbe } = this.#controller.choose(given, { tokens });
    if (hasWaited && !isProbe) this.#controller.delayProbe();
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

  #drafting(sequence: Sequence): DraftingSequence {
    return { history: this.#historyOf(sequence), most: sequence.drafts.length };
  }

  #historyOf(sequence: Sequence): DraftHistory {
    const known = this.#histories.get(sequence) ?? this.#controller.history();
    this.#histories.set(sequence, known);
    return known;
  }
}
