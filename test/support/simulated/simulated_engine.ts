/**
 * The engine's loop over a simulated GPU: the real scheduler, pages and host memory; what a model
 * computes is a number for each prefix, and the next token follows from it.
 *
 * @module
 */

import type { PrefixStore } from "../../../src/cache/prefix_store.ts";
import type { JsonJump } from "../../../src/constraint.ts";
import { adaptiveChoice } from "../../../src/engine/drafts/adaptive_choice.ts";
import { SequenceGrammar } from "../../../src/engine/grammar/sequence_grammar.ts";
import { PrefixTransfers } from "../../../src/engine/prefix/prefix_transfers.ts";
import {
  type PageCarrier,
  RetractionMemory,
} from "../../../src/engine/schedule/retraction_memory.ts";
import { type ScheduledStep, sampledRows } from "../../../src/engine/schedule/scheduled_step.ts";
import type { SchedulerOptions } from "../../../src/engine/schedule/scheduler_options.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { PageHolder } from "../../../src/engine/schedule/sequence_pages.ts";
import { carryOut } from "../../../src/engine/step/page_transfers.ts";
import { DeviceError } from "../../../src/errors.ts";
import type { GenerationChunk } from "../../../src/generation.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import type { StepCosts } from "../../../src/speculation/step_costs.ts";
import { EOS, scheduler, sequence, slotCarrier, slotCopier } from "../engines/sequences.ts";
import { require } from "./require.ts";
import { type FailingMethod, failParts } from "./simulated_faults.ts";
import { type Results, SimulatedGpu } from "./simulated_gpu.ts";
import { PlayedGrammars, type PlayedRules } from "./simulated_grammar.ts";
import { draftsOf, plainAnswer } from "./simulated_model.ts";
import { othersTurn, slowCodec, waitingCarrier, watchBorrowers } from "./simulated_prefixes.ts";

export interface SimulatedOptions extends Partial<SchedulerOptions> {
  readonly pageCount: number;
  readonly pageSize: number;
  readonly shared?: boolean;
  readonly promptsDiffer?: boolean;
  /** Slots that host memory has room for. Default none. */
  readonly hostSlots?: number;
  /** Steps that may be scheduled before the oldest is committed. Default 0. */
  readonly ahead?: number;
  /** Keeps prefixes of at least so many tokens as one block has. Default none. */
  readonly store?: PrefixStore;
  /** Drafts of a sequence that a step verifies at most; some are right. Default none. */
  readonly maxDrafts?: number;
  /** One draft in so many is wrong. Default 4. */
  readonly wrongDrafts?: number;
  /** Has the number of drafts follow these costs of steps. Default: it is always the same. */
  readonly costs?: StepCosts;
  /** Seconds that a request waits for what is stored of it. Default as long as it takes. */
  readonly maxWait?: number;
}

export interface SimulatedRequest {
  readonly prompt: readonly number[];
  readonly maxNewTokens: number;
  readonly partition?: string | undefined;
  readonly priority?: number;
  /** What its answer has to match, and what of that is taken without a step. Default: anything. */
  readonly rules?: PlayedRules | undefined;
  readonly jump?: JsonJump | undefined;
}

/** Tokens that masks tell of. */
const VOCABULARY = 64;

/** More than any test has an engine wait. */
const MOST_WAITS = 100_000;

const LOST = new DeviceError("The device is lost");

export class SimulatedEngine {
  readonly scheduler;
  readonly pool;
  readonly pages;
  readonly radix;
  readonly memory: RetractionMemory;
  /** Moves pages between GPU and host. */
  readonly carrier: PageCarrier;
  readonly live = new Set<Sequence>();
  /** What sequences that failed were told. */
  readonly errors = new Map<Sequence, unknown>();
  /** Whether the device is lost where the loop waits; what is in its memory is gone then. */
  isLostNow: () => boolean = () => false;
  /** Whether computing a step loses the device. */
  losesWith: (step: ScheduledStep) => boolean = () => false;
  /** Called wherever the loop waits and others run. */
  onAwait: () => void = () => {};
  readonly counts = {
    ...{ steps: 0, mostAhead: 0, retractions: 0, copies: 0, restores: 0, ended: 0, losses: 0 },
    ...{ continued: 0, entering: 0, leftOut: 0 },
  };
  readonly #options: SimulatedOptions;
  readonly gpu: SimulatedGpu;
  readonly grammars = new PlayedGrammars();
  readonly #movers;
  /** Absent without a store. */
  readonly prefixes: PrefixTransfers | undefined;
  /** What went wrong with what is stored. */
  readonly problems: string[] = [];
  /** Who has pages and is no sequence. */
  readonly #borrowers: ReadonlySet<PageHolder>;
  /** Requests that wait for what is stored of them. */
  readonly #begins = new Set<Promise<void>>();
  /** How many did and wait no more. */
  #begun = 0;
  #isRunning = false;
  #waits = 0;

  constructor(options: SimulatedOptions) {
    const { pageCount, pageSize, hostSlots = 0, ...others } = options;
    this.#options = options;
    this.gpu = new SimulatedGpu(options);
    const { slots } = this.gpu;
    this.carrier = waitingCarrier(slotCarrier(slots, pageSize), () => this.#wait());
    this.memory = new RetractionMemory(hostSlots * 4, this.carrier);
    const retractionMemory = this.memory;
    const { costs, draftSteps: most = 0 } = options;
    const draftChoice = costs && adaptiveChoice(costs, { most, pageCount, pageSize });
    const made = scheduler(pageCount, pageSize, { ...others, retractionMemory, draftChoice });
    this.scheduler = made.scheduler;
    this.pool = made.pool;
    this.pages = made.pages;
    this.radix = made.radix;
    this.#movers = { retractionMemory, copier: slotCopier(slots, pageSize) };
    this.#borrowers = watchBorrowers(this.pages);
    const { store, maxWait = Number.POSITIVE_INFINITY } = options;
    this.prefixes =
      store &&
      new PrefixTransfers({
        ...{ store, maxWait, pages: this.pages, minTokens: store.blockTokens },
        codec: slowCodec(slotCarrier(slots, pageSize), {
          lossCount: () => this.counts.losses,
          loss: LOST,
        }),
        isIdle: () => !this.#isRunning,
        wake: () => {},
        onProblem: (problem) => this.problems.push(problem),
      });
  }

  add({ prompt, maxNewTokens, rules, jump, ...options }: SimulatedRequest): Sequence {
    const onError = (error: unknown) => {
      this.errors.set(made, error);
      this.#end(made);
      this.#requireAnswer(made);
    };
    const { maxDrafts: most = 0, draftSteps = 0, tree, wrongDrafts } = this.#options;
    const treeDepth = tree?.steps;
    const propose = (count: number) =>
      draftsOf(this.gpu.textOf(made, made.tokens), count, wrongDrafts);
    const drafter = draftSteps > 0 ? undefined : { append: () => {}, propose };
    const endTokens = new Set([EOS]);
    const drafts = most > 0 ? { drafter, most, endTokens, treeDepth } : undefined;
    const given = { vocabularySize: VOCABULARY, jump, onKnown: () => {} };
    const grammar = rules && new SequenceGrammar(given);
    // As an engine's stream does, at once.
    const onChunk = ({ finish }: GenerationChunk) => {
      if (finish !== null && this.live.has(made)) this.#finish(made);
    };
    const own = { ...options, grammar, drafts, onChunk, onError };
    const { sequence: made } = sequence(prompt, maxNewTokens, {}, own);
    this.live.add(made);
    this.gpu.add(made, rules);
    const opening = rules && this.grammars.begin(grammar!, rules);
    if (this.prefixes === undefined && opening === undefined) this.scheduler.add(made);
    else this.#beginLater(made, opening);
    return made;
  }

  #beginLater(one: Sequence, opening: Promise<void> | undefined): void {
    const isWanted = () => this.live.has(one);
    const restored = this.prefixes?.restore(one, isWanted);
    const begun = Promise.all([opening, restored]).then(() => {
      this.#begins.delete(begun);
      this.#begun += 1;
      if (!isWanted()) return;
      this.scheduler.add(one);
      one.announce();
    });
    this.#begins.add(begun);
  }

  leave(one: Sequence): void {
    this.#end(one);
    one.abort("left");
    this.#requireAnswer(one);
  }

  /** Makes those calls fail for which `isNow` says so. */
  failWhen(method: FailingMethod, isNow: () => boolean, error: Error): void {
    failParts(this, method, () => {
      if (isNow()) throw error;
    });
  }

  /** Steps until there is no work; an error ends all requests, unless it is that of a loss. */
  async run(): Promise<void> {
    const { scheduler: s } = this;
    try {
      for (;;) {
        try {
          const begun = this.#begun;
          this.#isRunning = true;
          await this.#runSteps();
          this.#isRunning = false;
          this.prefixes?.rest();
          // One may have begun just behind the last look for work.
          if (this.#begun > begun) continue;
          if (this.#begins.size === 0) return;
          this.grammars.answerAll();
          await Promise.race(this.#begins);
        } catch (error) {
          if (error !== LOST) throw error;
          this.#lose();
        }
      }
    } catch (error) {
      for (const one of s.all()) {
        s.remove(one);
        one.fail(error);
      }
      throw error;
    }
  }

  async #runSteps(): Promise<void> {
    const { ahead = 0 } = this.#options;
    const { scheduler: s, counts } = this;
    const inFlight: { readonly step: ScheduledStep; readonly results: Results }[] = [];
    for (;;) {
      this.prefixes?.rest();
      if (this.prefixes !== undefined) await othersTurn();
      this.prefixes?.rest();
      while (inFlight.length <= ahead) {
        const step = s.schedule();
        if (step === undefined) break;
        inFlight.push({ step, results: await this.#submit(step) });
        counts.mostAhead = Math.max(counts.mostAhead, inFlight.length - 1);
      }
      const oldest = inFlight.shift();
      if (oldest === undefined) {
        if (s.isUnprepared) await this.#nextMask();
        else if (!s.hasWork || this.pages.borrowerCount === 0) return;
        continue;
      }
      await this.#wait();
      s.commit(oldest.step, oldest.results.ids, oldest.results.drafts);
      this.prefixes?.committed(oldest.step);
    }
  }

  async #nextMask(): Promise<void> {
    this.grammars.answer();
    await this.#wait();
  }

  #lose(): void {
    this.counts.losses += 1;
    this.gpu.lose(this.live);
    this.scheduler.restart(LOST);
    this.checkPages();
  }

  /** @throws {Error} when a page is owned by no sequence or by two. */
  checkPages(): void {
    const { pool, radix } = this;
    const own = [...this.live, ...this.#borrowers].flatMap((one) =>
      one.pageTable.slice(pool.pagesFor(one.sharedTokens)),
    );
    require(new Set(own).size === own.length, "a page is owned twice");
    const owned = own.length + pool.freeCount + (radix?.pageCount ?? 0);
    require(owned === pool.pageCount, `${owned} of ${pool.pageCount} pages are accounted for`);
    require(this.memory.usedBytes <= this.memory.budget, "host memory holds more than it may");
  }

  /** @throws {Error} when anything is left that should be gone. */
  checkIdle(): void {
    this.checkPages();
    const { pages, pool, memory, radix, scheduler: s } = this;
    require(this.live.size === 0 && !s.hasWork, "a sequence is left");
    require(pages.borrowerCount === 0, "borrowed pages were not given back");
    require(pages.available === pool.pageCount, "a page is still in use");
    require(radix === undefined || radix.evictablePages === radix.pageCount, "a lock is left");
    require(memory.usedBytes === 0, "host memory is still in use");
    require(this.grammars.sessions.size === 0, "a session of a grammar is left");
  }

  async #submit(step: ScheduledStep): Promise<Results> {
    const { transfers } = step;
    this.counts.steps += 1;
    this.counts.copies += transfers.copies.length;
    this.counts.restores += transfers.restores.length;
    // Before anything is awaited, as the engine's loop does: a sequence may leave while pages move.
    const rows = sampledRows(step);
    await carryOut(transfers, this.#movers);
    await this.#wait();
    if (this.losesWith(step)) throw LOST;
    this.counts.continued += step.continued.size;
    if (step.batch.nextSources !== undefined) this.counts.entering += 1;
    else if (this.#options.draftSteps) this.counts.leftOut += 1;
    return this.gpu.run(step, rows);
  }

  async #wait(): Promise<void> {
    this.#waits += 1;
    require(this.#waits < MOST_WAITS, "it waits for ever");
    this.onAwait();
    this.grammars.answer();
    await (this.prefixes === undefined ? Promise.resolve() : othersTurn());
    this.checkPages();
    if (this.isLostNow()) throw LOST;
  }

  #finish(one: Sequence): void {
    this.#end(one);
    this.counts.retractions += one.retractions;
    this.counts.ended += 1;
    this.#requireAnswer(one);
  }

  /** That a plain engine gives the same: as much of it as there is where the sequence has not ended. */
  #requireAnswer(one: Sequence): void {
    const plain = plainAnswer(one, this.gpu.rulesOf(one));
    const got = one.tokens.slice(one.promptLength);
    const isDead = this.errors.get(one) instanceof GrammarError;
    const isWhole = one.finish?.type !== "abort" || isDead;
    const want = isWhole ? plain.tokens : plain.tokens.slice(0, got.length);
    require(got.join() === want.join(), `the answer is ${got}, not ${want}`);
    require(!isWhole || isDead === plain.isDead, "a dead end is none, or the reverse");
  }

  #end(one: Sequence): void {
    this.scheduler.remove(one);
    this.live.delete(one);
    one.grammar?.close();
  }
}
