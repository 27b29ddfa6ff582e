/**
 * How many drafts a step verifies: as many as bring the most tokens a millisecond, by what steps
 * cost and by what was accepted lately, and none where none pays.
 *
 * A draft counts as a token with the probability that it and those before it are accepted. Drafts
 * of all sequences are taken in the order of that probability, and of all such choices the best is
 * kept. It replaces the lengths of the step before only where it is clearly better, so lengths stay
 * where nothing changes. Now and then a step is a probe, with one draft more than pays, as only
 * drafts that are verified tell whether they would be accepted; while probes find more than was
 * thought, they follow each other.
 *
 * Answers do not depend on any of this.
 *
 * @module
 */
import { Acceptance } from "./acceptance.ts";
import {
  type Candidate,
  candidatesOf,
  DraftHistory,
  type DraftingSequence,
} from "./draft_history.ts";
import { CLEARLY, ExpectedStep } from "./expected_step.ts";
import type { StepCosts } from "./step_costs.ts";
import { whoWaits } from "./waiting_drafts.ts";

/** Steps from one probe to the next. */
const PROBE_EVERY = 50;
/** How much more than was thought a probe has to find for the next one to follow at once. */
const SURPRISE = 0.5;

export interface DraftLengths {
  /** Drafts to verify: for each sequence, in the order that they were given. */
  readonly verified: readonly number[];
  /** Drafts to make for the longest of them; the others need no more than their own. */
  readonly made: number;
  readonly isProbe: boolean;
}

export class DraftLengthController {
  readonly #costs: StepCosts;
  readonly #general = new Acceptance();
  /** Of sequences that the draft knows in part only, whose drafts are worse. */
  readonly #partial = new Acceptance(this.#general);
  #sinceProbe = 0;
  /** By how much drafts at the ends of probes were accepted more often than was thought, in all. */
  #surprise = 0;
  /** Those drafts. */
  #probed = 0;
  readonly #probes: boolean;

  /**
   * @param options `probes`: whether only drafts that are verified tell whether they would be accepted.
   * Default true.
   */
  constructor(costs: StepCosts, { probes = true }: { readonly probes?: boolean } = {}) {
    this.#costs = costs;
    this.#probes = probes;
  }

  /**
   * For a sequence that begins: what others have shown is what is thought of it.
   *
   * @param isPartial Whether the draft's cache lacks a part of it: then it is no example of others.
   */
  history(isPartial = false): DraftHistory {
    const general = isPartial ? this.#partial : this.#general;
    return new DraftHistory(general, { isCautious: !this.#probes });
  }

  /**
   * Whether drafts clearly pay for so many sequences alike, if each may have `most`.
   *
   * @param acceptance Share of accepted drafts. Default: what sequences have shown.
   */
  pays(sequences: number, most: number, acceptance?: number): boolean {
    const rates = this.#general.rates(most).map((rate) => acceptance ?? rate);
    const step = new ExpectedStep(this.#costs, sequences, { plainRows: sequences });
    const plain = step.tokensPerMs;
    let probability = 1;
    return rates.some((rate, index) => {
      probability *= rate;
      for (let sequence = 0; sequence < sequences; sequence++) {
        step.add({ sequence, index, probability });
      }
      return step.tokensPerMs > plain * (1 + CLEARLY);
    });
  }

  /** Milliseconds of a step without drafts. */
  plainMs(rows: number): number {
    return this.#costs.target.of(rows);
  }

  /** What a step of so many rows takes more where one draft is made and verified, in milliseconds. */
  trialMs(rows: number): number {
    const { target, entering, draft } = this.#costs;
    return target.of(rows + 1) - target.of(rows) + entering.of(rows + 1) + draft.of(1);
  }

  /**
   * The lengths of the next step.
   *
   * @param others Rows of the step that are none of these sequences': those of prompts, say, and those
   * that give another sequence a token. Where there are none, nothing runs ahead of drafts of the host.
   */
  choose(
    sequences: readonly DraftingSequence[],
    { rows = 0, tokens = 0 }: { readonly rows?: number; readonly tokens?: number } = {},
  ): DraftLengths {
    const candidates = candidatesOf(sequences);
    const { length } = sequences;
    const step = new ExpectedStep(this.#costs, length + tokens, {
      plainRows: length + rows + tokens,
      runsAlone: rows + tokens === 0,
    });
    const best = bestOf(candidates, step);
    const verified = this.#isBetter(best, sequences, step)
      ? lengthsOf(candidates.slice(0, best.count), sequences.length)
      : sequences.map(previousLength);
    sequences.forEach(({ history }, i) => {
      history.length = verified[i]!;
    });
    const isProbe = this.#startsProbe(sequences, verified, step);
    return { verified, made: verified.reduce((most, one) => Math.max(most, one), 0), isProbe };
  }

  /**
   * Of sequences with drafts on the host, those that are to wait for them.
   *
   * @param others Sequences that run ahead.
   * @returns Their numbers.
   */
  whoWaits(
    sequences: readonly DraftingSequence[],
    others: number,
    leastGain?: number,
  ): ReadonlySet<number> {
    return whoWaits(this.#costs, sequences, others, leastGain);
  }

  /**
   * What a step has shown of a sequence: so many drafts were verified, and so many accepted.
   *
   * @param matched Tokens of the match that they went on with; 0 for drafts by a model.
   */
  record(history: DraftHistory, verified: number, accepted: number, matched = 0): void {
    if (verified === history.probed) {
      history.probed = undefined;
      this.#surprise +=
        (accepted === verified ? 1 : 0) - history.acceptance.rates(verified).at(-1)!;
      this.#probed++;
    }
    history.acceptance.add(verified, accepted, matched);
    history.general.add(verified, accepted, matched);
  }

  get #isDue(): boolean {
    return this.#sinceProbe >= PROBE_EVERY || this.#surprise > SURPRISE * this.#probed;
  }

  /** Whether the best lengths are to replace those of the step before. */
  #isBetter(best: Best, sequences: readonly DraftingSequence[], step: ExpectedStep): boolean {
    if (sequences.some(({ history }) => history.length === undefined)) return true;
    step.clear();
    for (const sequence of sequences) {
      const length = previousLength(sequence);
      for (const draft of candidatesOf([{ ...sequence, most: length }])) step.add(draft);
    }
    return best.tokensPerMs > step.tokensPerMs * (1 + CLEARLY);
  }

  /** Makes the step a probe where it is time for one: each sequence that can take it has one more. */
  #startsProbe(
    sequences: readonly DraftingSequence[],
    verified: number[],
    step: ExpectedStep,
  ): boolean {
    if (!this.#probes) return false;
    this.#sinceProbe++;
    const canTake = sequences.some(({ most }, i) => verified[i]! < most);
    if (!this.#isDue || !canTake || !couldPay(sequences, verified, step)) return false;
    this.#sinceProbe = 0;
    this.#surprise = 0;
    this.#probed = 0;
    sequences.forEach(({ history, most }, i) => {
      if (verified[i]! >= most) return;
      verified[i]! += 1;
      history.probed = verified[i];
    });
    return true;
  }
}

/** Whether one draft more of each sequence would pay if all drafts were accepted. */
function couldPay(
  sequences: readonly DraftingSequence[],
  verified: readonly number[],
  step: ExpectedStep,
): boolean {
  const expect = (more: number) => {
    step.clear();
    sequences.forEach(({ most }, sequence) => {
      const length = Math.min(verified[sequence]! + more, most);
      for (let index = 0; index < length; index++) step.add({ sequence, index, probability: 1 });
    });
    return step.tokensPerMs;
  };
  return expect(1) > expect(0);
}

function previousLength({ history, most }: DraftingSequence): number {
  return Math.min(history.length ?? 0, most);
}

function lengthsOf(drafts: readonly Candidate[], sequences: number): number[] {
  const lengths = new Array<number>(sequences).fill(0);
  for (const { sequence } of drafts) lengths[sequence]! += 1;
  return lengths;
}

interface Best {
  /** How many of the candidates. */
  readonly count: number;
  readonly tokensPerMs: number;
}

function bestOf(candidates: readonly Candidate[], step: ExpectedStep): Best {
  let best: Best = { count: 0, tokensPerMs: step.tokensPerMs };
  candidates.forEach((draft, i) => {
    step.add(draft);
    const { tokensPerMs } = step;
    if (tokensPerMs > best.tokensPerMs) best = { count: i + 1, tokensPerMs };
  });
  return best;
}
