/**
 * How many drafts the model's draft module makes, down to none, where the number follows what drafts
 * bring and cost.
 *
 * A step that drafts has all of its rows enter the module's cache, which takes time too. So the module
 * is either there or left out: once no draft has paid for a while, steps run as those of a model that
 * has none, and the tokens that they compute lack their entries. It comes back with a request that
 * begins, if drafts then pay for all that run, and the request's own tokens all enter. Requests that
 * have run meanwhile, or share pages that were computed meanwhile, draft by what the cache has, and
 * are judged apart. What stands in place of an entry that is missing is 0 or an earlier one: it is
 * compared with what is drawn and no more, so answers stay the same.
 *
 * While the module is left out because drafts were refused, a request that begins is tried now and
 * then, with one draft a step: such steps are two in a hundred at most, and what they take more is at
 * most a fiftieth of the time of all. Time that is saved up serves one trial: what is left behind it is
 * given up, as trials in a row would slow down those who ask just then.
 *
 * @module
 */
import type { DraftHistory } from "../../speculation/draft_history.ts";
import type { DraftLengthController } from "../../speculation/draft_length.ts";
import type { Chunk } from "../schedule/scheduled_step.ts";
import type { Sequence } from "../schedule/sequence.ts";
import type { DraftChoice } from "./draft_choice.ts";
import type { DraftWork } from "./draft_work.ts";
import { MissingEntries } from "./missing_entries.ts";

/** Steps without drafts in a row after which the module is left out. */
const KEPT_STEPS = 8;
/** A sequence that lacks a larger share of its entries is judged apart. */
const MISSING_SHARE = 1 / 8;
/** Share of the time in which a trial may have the module run, and how many steps can be saved up. */
const TRIAL_SHARE = 0.02;
const MOST_SAVED = 64;
/** Steps of a trial that draft; it goes on while more than half of its drafts are accepted. */
const TRIAL_STEPS = 8;

const NONE: DraftWork = { steps: 0, enters: false, countOf: () => 0 };
const ENTERING: DraftWork = { ...NONE, enters: true };

export interface AdaptiveModuleOptions {
  /** Drafts of a step for one sequence at most. */
  readonly most: number;
  readonly pageCount: number;
  readonly pageSize: number;
}

/** What is known of a sequence. */
interface Known {
  history: DraftHistory;
  isPartial: boolean;
  /** Of its tokens, those without an entry. */
  missing: number;
  /** How often it had been retracted when they were counted. */
  retractions: number;
}

interface Trial {
  readonly sequence: Sequence;
  /** Steps with a draft that are left of it. */
  left: number;
}

export class AdaptiveModule implements DraftChoice {
  readonly #controller: DraftLengthController;
  readonly #most: number;
  readonly #missing: MissingEntries;
  readonly #known = new WeakMap<Sequence, Known>();
  #isOn = false;
  /** Steps in a row that made no draft. */
  #idle = 0;
  /** Milliseconds that the next trial may take. */
  #saved = 0;
  #trial: Trial | undefined;

  constructor(controller: DraftLengthController, options: AdaptiveModuleOptions) {
    this.#controller = controller;
    this.#most = options.most;
    this.#missing = new MissingEntries(options.pageCount, options.pageSize);
  }

  known(): void {
    // The GPU goes on from what it has made.
  }

  /** All that were made are verified: they were chosen before. */
  limits(): undefined {
    return undefined;
  }

  workOf(chunks: readonly Chunk[], running: number): DraftWork {
    const ms = this.#controller.plainMs(rowsOf(chunks));
    this.#saved = Math.min(this.#saved + TRIAL_SHARE * ms, MOST_SAVED * ms);
    if (this.#trial !== undefined && this.#trial.sequence.finish !== null) this.#endTrial();
    for (const { sequence } of chunks) this.#count(sequence);
    if (!this.#isOn) this.#begin(chunks, running);
    const work = this.#isOn ? this.#choose(chunks, running) : this.#try(chunks, running);
    this.#note(chunks, work.enters);
    return work;
  }

  verified(sequence: Sequence, verified: number, accepted: number): void {
    const history = this.#known.get(sequence)?.history;
    if (history !== undefined && verified > 0) {
      this.#controller.record(history, verified, accepted);
    }
  }

  /** Counts what a sequence lacks where that is not known, as it begins, or begins again. */
  #count(sequence: Sequence): void {
    const { computed, pageTable, retractions } = sequence;
    const before = this.#known.get(sequence);
    if (before?.retractions === retractions) return;
    const missing = this.#missing.of(pageTable, computed);
    const isPartial = missing > MISSING_SHARE * computed;
    const history =
      before?.isPartial === isPartial ? before.history : this.#controller.history(isPartial);
    this.#known.set(sequence, { history, isPartial, missing, retractions });
  }

  /** Lets the module run where drafts pay for a request that begins and all others, or tries it. */
  #begin(chunks: readonly Chunk[], running: number): void {
    const chunk = chunks.find(({ sequence }) => this.#isNew(sequence));
    if (chunk === undefined) return;
    const { sequence, rows } = chunk;
    if (this.#controller.pays(running, this.#most)) {
      this.#isOn = true;
      this.#idle = 0;
      return;
    }
    if (this.#trial !== undefined || !this.#controller.pays(running, this.#most, 1)) return;
    const prompt = Math.ceil((sequence.promptLength - sequence.computed) / rows);
    const ms =
      prompt * this.#trialMs(rowsOf(chunks), running) +
      TRIAL_STEPS * this.#trialMs(running, running);
    if (this.#saved >= ms) this.#trial = { sequence, left: TRIAL_STEPS };
  }

  /** What a step of a trial counts: as a step without prompts, or what it takes more than others. */
  #trialMs(rows: number, running: number): number {
    return Math.max(this.#controller.plainMs(running), this.#controller.trialMs(rows));
  }

  #endTrial(): void {
    this.#trial = undefined;
    this.#saved = 0;
  }

  /** Whether nothing of it was computed without the module so far. */
  #isNew(sequence: Sequence): boolean {
    const { missing, isPartial } = this.#known.get(sequence)!;
    const { computed, promptLength, cachedTokens } = sequence;
    return !isPartial && computed < promptLength && (missing === 0 || computed === cachedTokens);
  }

  #choose(chunks: readonly Chunk[], running: number): DraftWork {
    const drafted = chunks.filter(isDraftable).map(({ sequence }) => sequence);
    const given = drafted.map((sequence) => ({
      history: this.#known.get(sequence)!.history,
      most: Math.min(this.#most, mostOf(sequence)),
    }));
    const others = Math.max(running - drafted.length, 0);
    const { verified, made } = this.#controller.choose(given, { rows: others });
    if (made > 0) this.#idle = 0;
    else if (chunks.some(({ sequence }) => isGenerated(sequence))) this.#idle += 1;
    if (this.#idle >= KEPT_STEPS) this.#isOn = false;
    if (!this.#isOn) return NONE;
    if (made === 0) return ENTERING;
    const counts = new Map(drafted.map((sequence, i) => [sequence, verified[i]!]));
    return { steps: made, enters: true, countOf: (one) => counts.get(one) ?? 0 };
  }

  /** A step of the trial, where there is one that has rows in it. */
  #try(chunks: readonly Chunk[], running: number): DraftWork {
    const trial = this.#trial;
    const chunk = trial && chunks.find(({ sequence }) => sequence === trial.sequence);
    if (trial === undefined || chunk === undefined) return NONE;
    const ms = this.#trialMs(rowsOf(chunks), running);
    const isLast = this.#saved < ms || !this.#goesOn(trial);
    this.#saved -= ms;
    if (isLast) this.#endTrial();
    if (isLast || !isDraftable(chunk)) return isLast ? NONE : ENTERING;
    trial.left -= 1;
    if (this.#controller.pays(running, this.#most)) {
      this.#isOn = true;
      this.#idle = 0;
    }
    return { steps: 1, enters: true, countOf: (one) => (one === trial.sequence ? 1 : 0) };
  }

  #goesOn({ sequence, left }: Trial): boolean {
    const isOver = isGenerated(sequence) && !sequence.wantsDrafts;
    const { acceptance } = this.#known.get(sequence)!.history;
    return !isOver && (left > 0 || acceptance.rates(1)[0]! > 0.5);
  }

  /** Takes note of the rows of a step. */
  #note(chunks: readonly Chunk[], enters: boolean): void {
    for (const { sequence, rows, drafts = [] } of chunks) {
      const start = sequence.computed;
      const end = start + rows;
      const slack = sequence.drafting?.slack ?? 0;
      this.#missing.computed(sequence.pageTable, {
        start,
        end: end + slack + drafts.length,
        enters,
      });
      const known = this.#known.get(sequence)!;
      if (!enters) known.missing += rows;
      const isPartial = known.missing > MISSING_SHARE * end;
      if (isPartial === known.isPartial) continue;
      known.isPartial = isPartial;
      known.history = this.#controller.history(isPartial);
    }
  }
}

function rowsOf(chunks: readonly Chunk[]): number {
  return chunks.reduce((sum, { rows }) => sum + rows, 0);
}

const isGenerated = ({ computed, promptLength }: Sequence) => computed >= promptLength;

/** Whether a step leaves a token of the chunk's sequence, behind which drafts are of use. */
function isDraftable({ sequence, rows }: Chunk): boolean {
  return sequence.computed + rows === sequence.length && sequence.wantsDrafts;
}

/** Drafts that it has use for behind the token that the next step leaves it. */
function mostOf({ maxNewTokens, length, promptLength }: Sequence): number {
  return Math.max(maxNewTokens - (length + 1 - promptLength) - 1, 0);
}
