/**
 * The engine's loop over a simulated GPU: the real scheduler, pages and host memory; what a model
 * computes is a number for each prefix, and the next token follows from it.
 *
 * @module
 */

import { FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import type { PrefixStore } from "../../../src/cache/prefix_store.ts";
import { adaptiveChoice } from "../../../src/engine/drafts/adaptive_choice.ts";
import { PrefixTransfers } from "../../../src/engine/prefix/prefix_transfers.ts";
import {
  type PageCarrier,
  RetractionMemory,
} from "../../../src/engine/schedule/retraction_memory.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import type { SchedulerOptions } from "../../../src/engine/schedule/scheduler_options.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { PageHolder } from "../../../src/engine/schedule/sequence_pages.ts";
import { carryOut } from "../../../src/engine/step/page_transfers.ts";
import { DeviceError } from "../../../src/errors.ts";
import type { StepCosts } from "../../../src/speculation/step_costs.ts";
import { EOS, scheduler, sequence, slotCarrier, slotCopier } from "../engines/sequences.ts";
import { type Accepted, acceptedOf, draftStep, type Place, placesOf } from "./simulated_drafts.ts";
import { type FailingMethod, failParts } from "./simulated_faults.ts";
import { answerOf, draftsOf, GENERATED, longer, nextToken, startOf } from "./simulated_model.ts";
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
}

/** What a step leaves. */
interface Results {
  readonly ids: Uint32Array;
  readonly drafts: readonly Uint32Array[];
}

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
    ...{ drafted: 0, accepted: 0, continued: 0, entering: 0, leftOut: 0, moved: 0 },
  };
  readonly #options: SimulatedOptions;
  /** What stands in each slot of the cache: the number of the prefix whose last token is there. */
  readonly #slots = new Map<number, number>();
  /** Tokens of each sequence, those included that no client has seen yet. */
  readonly #tokens = new Map<Sequence, number[]>();
  /** What the newest step has sampled. */
  #sampled: Uint32Array = new Uint32Array(0);
  /** What it has drafted, by its sequences. */
  #drafted: readonly Uint32Array[] = [];
  readonly #movers;
  /** Absent without a store. */
  readonly prefixes: PrefixTransfers | undefined;
  /** What went wrong with what is stored. */
  readonly problems: string[] = [];
  /** Who has pages and is no sequence. */
  readonly #borrowers: ReadonlySet<PageHolder>;
  /** Requests that wait for what is stored of them. */
  readonly #begins = new Set<Promise<void>>();
  #isRunning = false;

  constructor(options: SimulatedOptions) {
    const { pageCount, pageSize, hostSlots = 0, ...others } = options;
    this.#options = options;
    this.carrier = waitingCarrier(slotCarrier(this.#slots, pageSize), () => this.#wait());
    this.memory = new RetractionMemory(hostSlots * 4, this.carrier);
    const retractionMemory = this.memory;
    const { costs, draftSteps: most = 0 } = options;
    const draftChoice = costs && adaptiveChoice(costs, { most, pageCount, pageSize });
    const made = scheduler(pageCount, pageSize, { ...others, retractionMemory, draftChoice });
    this.scheduler = made.scheduler;
    this.pool = made.pool;
    this.pages = made.pages;
    this.radix = made.radix;
    this.#movers = { retractionMemory, copier: slotCopier(this.#slots, pageSize) };
    this.#borrowers = watchBorrowers(this.pages);
    const { store, maxWait = Number.POSITIVE_INFINITY } = options;
    this.prefixes =
      store &&
      new PrefixTransfers({
        ...{ store, maxWait, pages: this.pages, minTokens: store.blockTokens },
        codec: slowCodec(slotCarrier(this.#slots, pageSize), {
          lossCount: () => this.counts.losses,
          loss: LOST,
        }),
        isIdle: () => !this.#isRunning,
        wake: () => {},
        onProblem: (problem) => this.problems.push(problem),
      });
  }

  add({ prompt, maxNewTokens, ...options }: SimulatedRequest): Sequence {
    const onError = (error: unknown) => {
      this.errors.set(made, error);
      this.#end(made);
    };
    const { maxDrafts: most = 0, draftSteps = 0, tree } = this.#options;
    const treeDepth = tree?.steps;
    const own = { append: () => {}, propose: (count: number) => draftsOf(made, count) };
    const drafter = draftSteps > 0 ? undefined : own;
    const endTokens = new Set([EOS]);
    const drafts = most > 0 ? { drafter, most, endTokens, treeDepth } : undefined;
    const { sequence: made } = sequence(prompt, maxNewTokens, {}, { ...options, drafts, onError });
    this.live.add(made);
    this.#tokens.set(made, [...made.tokens]);
    if (this.prefixes === undefined) this.scheduler.add(made);
    else this.#beginLater(made, this.prefixes);
    return made;
  }

  #beginLater(one: Sequence, prefixes: PrefixTransfers): void {
    const isWanted = () => this.live.has(one);
    const begun = prefixes.restore(one, isWanted).then(() => {
      this.#begins.delete(begun);
      if (isWanted()) this.scheduler.add(one);
    });
    this.#begins.add(begun);
  }

  leave(one: Sequence): void {
    this.#end(one);
    one.abort("left");
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
          this.#isRunning = true;
          await this.#runSteps();
          this.#isRunning = false;
          this.prefixes?.rest();
          if (this.#begins.size === 0) return;
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
        if (s.hasWork && this.pages.borrowerCount > 0) continue;
        return;
      }
      await this.#wait();
      s.commit(oldest.step, oldest.results.ids, oldest.results.drafts);
      this.prefixes?.committed(oldest.step);
      for (const one of this.live) if (one.finish !== null) this.#finish(one);
    }
  }

  /** Another device: nothing is in its cache, and what steps in flight have sampled is not known. */
  #lose(): void {
    this.counts.losses += 1;
    this.#slots.clear();
    for (const one of this.live) this.#tokens.set(one, [...one.tokens]);
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
  }

  async #submit(step: ScheduledStep): Promise<Results> {
    const { transfers } = step;
    this.counts.steps += 1;
    this.counts.copies += transfers.copies.length;
    this.counts.restores += transfers.restores.length;
    await carryOut(transfers, this.#movers);
    await this.#wait();
    if (this.losesWith(step)) throw LOST;
    const tokensOf = (one: Sequence) => this.#tokens.get(one)!;
    const places = placesOf(step, this.#drafted, tokensOf);
    this.counts.continued += step.continued.size;
    if (step.batch.nextSources !== undefined) this.counts.entering += 1;
    else if (this.#options.draftSteps) this.counts.leftOut += 1;
    const { ids, accepted } = this.#compute(step, places);
    const { tree } = this.#options;
    this.#drafted = draftStep(step, places, { ids, accepted, tokensOf, tree });
    return { ids, drafts: this.#drafted };
  }

  async #wait(): Promise<void> {
    this.onAwait();
    await (this.prefixes === undefined ? Promise.resolve() : othersTurn());
    this.checkPages();
    if (this.isLostNow()) throw LOST;
  }

  #finish(one: Sequence): void {
    this.live.delete(one);
    this.counts.retractions += one.retractions;
    this.counts.ended += 1;
    const want = answerOf(one).join();
    const got = one.tokens.slice(one.promptLength).join();
    require(got === want, `the answer is ${got}, not ${want}`);
  }

  #end(one: Sequence): void {
    this.scheduler.remove(one);
    this.live.delete(one);
  }

  /** Plays the step: each row reads the row before it from the cache, and all those before that. */
  #compute({ batch, sampled }: ScheduledStep, places: readonly Place[]) {
    const slots = this.#slots;
    require(batch.sources.length <= 16, "too many rows");
    const written = new Set<number>();
    let row = 0;
    let isPrefill = false;
    /** What stands behind the last token of each sequence, and behind each of its drafts. */
    const last = new Map<Sequence, number[]>();
    for (const q of places) {
      const { owner, computed, drafted } = q;
      const { promptLength, partition } = owner;
      isPrefill ||= q.phase === "prefill";
      // Generated rows stand in front, and each row runs the form that belongs to its token.
      const form = drafted.length > 0 ? "verify" : "decode";
      require(q.phase === (isPrefill ? "prefill" : form), "rows are out of order");
      require(q.position < promptLength === isPrefill, "a row has the wrong form");
      require(!isPrefill || computed <= promptLength, "a prompt row goes too far");
      const end = q.position + q.queryLength;
      require(q.queryStart === row && computed === end - drafted.length, "a row is missing");
      const slotOf = (at: number) => this.#slot(q.pageTable, at);
      const tokens = this.#tokens.get(owner)!;
      const found: number[] = [];
      for (let at = q.position; at < end; at++, row++) {
        const isDraft = at >= computed;
        const wanted = isDraft ? drafted[at - computed] : tokens[at];
        const isKnown = isDraft || at < owner.tokens.length;
        const token = q.continues ? wanted! : this.#token(batch.sources[row]!, isKnown);
        require(token === wanted || owner.finish !== null, "a row has another token");
        const above = q.position + (q.tree?.parents[at - q.position] ?? at - q.position - 1);
        const before = above < 0 ? startOf(partition) : (slots.get(slotOf(above)) ?? 0);
        require(!written.has(slotOf(at)), "a slot is written twice");
        written.add(slotOf(at));
        slots.set(slotOf(at), longer(before, token) + (isPrefill ? 0 : GENERATED));
        if (at >= computed - 1) found.push(slots.get(slotOf(at))!);
      }
      last.set(owner, found);
    }
    for (const place of places) this.#checkReads(place);
    const ids = Uint32Array.from(sampled, (one) => nextToken(last.get(one)!.shift()!));
    const accepted = acceptedOf(sampled, ids, places);
    this.#append(accepted);
    this.#sampled = ids;
    return { ids, accepted };
  }

  /** Gives each sequence the token drawn first, and those behind drafts that were right. */
  #append(accepted: readonly Accepted[]): void {
    for (const { place, rows, drawn } of accepted) {
      const { owner, tree, position, pageTable } = place;
      this.#tokens.get(owner)!.push(...drawn);
      this.counts.drafted += place.drafted.length;
      this.counts.accepted += rows.length - 1;
      if (tree === undefined) continue;
      // The entries of the path move together.
      rows.forEach((row, depth) => {
        const found = this.#slots.get(this.#slot(pageTable, position + row))!;
        this.#slots.set(this.#slot(pageTable, position + depth), found);
        if (row !== depth) this.counts.moved += 1;
      });
    }
  }

  /** A sequence that has left reads what it likes. */
  #checkReads({ pageTable, owner: one, computed }: Place): void {
    if (one.finish !== null) return;
    const { promptsDiffer } = this.#options;
    const tokens = this.#tokens.get(one)!;
    let prefix = startOf(one.partition);
    for (let at = 0; at < computed; at++) {
      prefix = longer(prefix, tokens[at]!);
      const found = this.#slots.get(this.#slot(pageTable, at)) ?? 0;
      require((found & ~GENERATED) >>> 0 === prefix, `another prefix stands at ${at}`);
      const isWrong = promptsDiffer && at >= one.promptLength && found === prefix;
      require(!isWrong, "a generated token was computed as a prompt's");
    }
  }

  #token(source: number, isKnown: boolean): number {
    require(source < FROM_SAMPLED ===
      isKnown, "a known token is taken from the GPU, or the reverse");
    return isKnown ? source : this.#sampled[source - FROM_SAMPLED]!;
  }

  #slot(pageTable: readonly number[], at: number): number {
    const { pageSize } = this.#options;
    require(at < pageTable.length * pageSize, "a row has no page");
    return pageTable[Math.floor(at / pageSize)]! * pageSize + (at % pageSize);
  }
}

function require(holds: boolean, problem: string): void {
  if (!holds) throw new Error(problem);
}
