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
import type { StepCosts } from "./step_costs.ts";

/** Steps from one probe to the next. */
const PROBE_EVERY = 50;
/** How much more than was thought a probe has to find for the next one to follow at once. */
const SURPRISE = 0.5;
/** What better lengths have to bring at least, as a share. */
const CLEARLY = 0.04;

/** One sequence, as long as it lives. */
export class DraftHistory {
  readonly acceptance: Acceptance;
  /** Drafts that its newest step verifies, probes aside; undefined before its first. */
  length: number | undefined;
  /** Drafts that its newest probe verifies, until it has ended. */
  probed: number | undefined;

  constructor(general: Acceptance) {
    this.acceptance = new Acceptance(general);
  }
}

/** A sequence of the next step. */
export interface DraftingSequence {
  readonly history: DraftHistory;
  /** Drafts that it has use for: fewer at its end, none where there are none to verify. */
  readonly most: number;
}

export interface DraftLengths {
  /** Drafts to verify: for each sequence, in the order that they were given. */
  readonly verified: readonly number[];
  /** Drafts to make for the longest of them; the others need no more than their own. */
  readonly made: number;
  readonly isProbe: boolean;
}

/** A draft that could be verified. */
interface Candidate {
  readonly sequence: number;
  /** From 0. */
  readonly index: number;
  /** That it and all before it are accepted. */
  readonly probability: number;
}

export class DraftLengthController {
  readonly #costs: StepCosts;
  readonly #general = new Acceptance();
  #sinceProbe = 0;
  /** By how much drafts at the ends of probes were accepted more often than was thought, in all. */
  #surprise = 0;
  /** Those drafts. */
  #probed = 0;

  constructor(costs: StepCosts) {
    this.#costs = costs;
  }

  /** For a sequence that begins: what others have shown is what is thought of it. */
  history(): DraftHistory {
    return new DraftHistory(this.#general);
  }

  /**
   * The lengths of the next step.
   *
   * @param otherRows Rows of the step that are none of these sequences', those of prompts, say.
   */
  choose(sequences: readonly DraftingSequence[], otherRows = 0): DraftLengths {
    const candidates = candidatesOf(sequences);
    const rows = sequences.length + otherRows;
    const step = new ExpectedStep(this.#costs, sequences.length, rows);
    const best = bestOf(candidates, step);
    const verified = this.#isBetter(best, sequences, step)
      ? lengthsOf(candidates.slice(0, best.count), sequences.length)
      : sequences.map(previousLength);
    sequences.forEach(({ history }, i) => {
      history.length = verified[i]!;
    });
    const isProbe = this.#startsProbe(sequences, verified);
    return { verified, made: verified.reduce((most, one) => Math.max(most, one), 0), isProbe };
  }

  /** What a step has shown of a sequence: so many drafts were verified, and so many accepted. */
  record(history: DraftHistory, verified: number, accepted: number): void {
    if (verified === history.probed) {
      history.probed = undefined;
      this.#surprise +=
        (accepted === verified ? 1 : 0) - history.acceptance.rates(verified).at(-1)!;
      this.#probed++;
    }
    history.acceptance.add(verified, accepted);
    this.#general.add(verified, accepted);
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
  #startsProbe(sequences: readonly DraftingSequence[], verified: number[]): boolean {
    this.#sinceProbe++;
    const isDue = this.#sinceProbe >= PROBE_EVERY || this.#surprise > SURPRISE * this.#probed;
    const canTake = sequences.some(({ most }, i) => verified[i]! < most);
    if (!isDue || !canTake) return false;
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

function previousLength({ history, most }: DraftingSequence): number {
  return Math.min(history.length ?? 0, most);
}

/** The drafts of all sequences, the most probable first; of one sequence, in their order. */
function candidatesOf(sequences: readonly DraftingSequence[]): Candidate[] {
  const candidates: Candidate[] = [];
  sequences.forEach(({ history, most }, sequence) => {
    let probability = 1;
    history.acceptance.rates(most).forEach((rate, index) => {
      probability *= rate;
      candidates.push({ sequence, index, probability });
    });
  });
  return candidates.sort((a, b) => b.probability - a.probability || a.index - b.index);
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

/** Tokens and time of a step, as drafts join it. */
class ExpectedStep {
  readonly #costs: StepCosts;
  readonly #sequences: number;
  readonly #plainRows: number;
  #drafts = 0;
  #tokens = 0;
  #draftMs = 0;
  /** Sequences with a draft at each place: those that a step of the draft has rows for. */
  #drafting: number[] = [];

  constructor(costs: StepCosts, sequences: number, plainRows: number) {
    this.#costs = costs;
    this.#sequences = sequences;
    this.#plainRows = plainRows;
  }

  clear(): void {
    this.#drafts = 0;
    this.#tokens = 0;
    this.#draftMs = 0;
    this.#drafting = [];
  }

  add({ index, probability }: Candidate): void {
    const { draft } = this.#costs;
    const before = this.#drafting[index] ?? 0;
    this.#drafting[index] = before + 1;
    this.#draftMs += draft.of(before + 1) - draft.of(before);
    this.#drafts++;
    this.#tokens += probability;
  }

  get tokensPerMs(): number {
    const ms = this.#costs.target.of(this.#plainRows + this.#drafts) + this.#draftMs;
    return (this.#sequences + this.#tokens) / ms;
  }
}
