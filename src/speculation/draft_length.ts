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
import { StepCost, type StepCosts } from "./step_costs.ts";

/** Steps from one probe to the next. */
const PROBE_EVERY = 50;
/** How much more than was thought a probe has to find for the next one to follow at once. */
const SURPRISE = 0.5;
const NO_COST = new StepCost([]);
/** What better lengths have to bring at least, as a share. */
const CLEARLY = 0.02;

/** One sequence, as long as it lives. */
export class DraftHistory {
  readonly acceptance: Acceptance;
  /** What is thought of all sequences of its kind. */
  readonly general: Acceptance;
  /** Drafts that its newest step verifies, probes aside; undefined before its first. */
  length: number | undefined;
  /** Drafts that its newest probe verifies, until it has ended. */
  probed: number | undefined;

  constructor(general: Acceptance) {
    this.general = general;
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
  /** Of sequences that the draft knows in part only, whose drafts are worse. */
  readonly #partial = new Acceptance(this.#general);
  #sinceProbe = 0;
  /** By how much drafts at the ends of probes were accepted more often than was thought, in all. */
  #surprise = 0;
  /** Those drafts. */
  #probed = 0;

  constructor(costs: StepCosts) {
    this.#costs = costs;
  }

  /**
   * For a sequence that begins: what others have shown is what is thought of it.
   *
   * @param isPartial Whether the draft's cache lacks a part of it: then it is no example of others.
   */
  history(isPartial = false): DraftHistory {
    return new DraftHistory(isPartial ? this.#partial : this.#general);
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
   * Whether drafts on the host pay for what they are waited for. Sequences that wait have no row in the
   * step that the others run ahead in, or nothing runs ahead where all of them wait.
   *
   * @param others Sequences that run ahead.
   */
  paysWaiting(sequences: readonly DraftingSequence[], others: number): boolean {
    const { target } = this.#costs;
    const all = sequences.length + others;
    const step = new ExpectedStep(this.#costs, all, { plainRows: all, runsAlone: others === 0 });
    const plain = step.tokensPerMs;
    const ahead = others > 0 ? { tokens: others, ms: target.of(others) } : { tokens: 0, ms: 0 };
    return candidatesOf(sequences).some((draft) => {
      step.add(draft);
      return (ahead.tokens + step.tokens) / (ahead.ms + step.ms) > plain * (1 + CLEARLY);
    });
  }

  /** Whether it is time to wait for a sequence's drafts that may not pay, to see what becomes of one. */
  isProbeDue(sequence: DraftingSequence, others: number): boolean {
    if (!this.#isDue) return false;
    const all = 1 + others;
    const step = new ExpectedStep(this.#costs, all, { plainRows: all, runsAlone: others === 0 });
    return couldPay([sequence], [0], step);
  }

  /** Takes note that the last probe was one for nothing: the next comes after as many steps as ever. */
  delayProbe(): void {
    this.#sinceProbe = 0;
  }

  /** Takes note of a step without drafts to choose from: it is one more since the last probe. */
  skip(): void {
    this.#sinceProbe++;
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
    history.general.add(verified, accepted);
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
    const rows = this.#plainRows + this.#drafts;
    const plain = target.of(rows);
    if (this.#drafts === 0) return plain;
    const made = this.#longest * draft.of(this.#drafting);
    return plain + made + entering.of(rows) + (waiting?.of(rows) ?? 0);
  }

  get tokensPerMs(): number {
    return this.tokens / this.ms;
  }
}
