/**
 * Decides which rows the next step computes. No GPU call is made here.
 *
 * Prompts go before decoding: a step computes chunks of prompts while there are any, else one row
 * of every running sequence; with `mixedChunks` it does both. A sequence is admitted when the pages
 * it is expected to need can be had. Where that was too hopeful, sequences are retracted: they give
 * their pages back and wait at the head of the queue. Host memory keeps their pages while it has
 * room; else they are computed again, prompt rows as a prompt and generated rows as generated ones.
 * They end with the very same tokens.
 *
 * The scheduler plans steps while earlier ones are in flight: what those sample is not known, where
 * it will be on the GPU is. Work is submitted in the order of the schedule, so pages are given on
 * at once, and a sequence that turns out to have ended has merely had a row too many.
 *
 * Where a device is lost again with rows of the same sequences in flight, groups of them run apart,
 * until it is known whose rows lose it (`suspects.ts`). A sequence may begin or end elsewhere: pages
 * that arrive are taken over without a forward, those of one that ended can be kept until they left.
 *
 * @module
 */
import { CapacityError, KernelError, RequestLosesDeviceError } from "../../errors.ts";
import { AllDrafts, type DraftChoice } from "../drafts/draft_choice.ts";
import { computedAtMost, generatedChunks, growForDrafts, isReady, promptChunks } from "./chunks.ts";
import { type Lookahead, lookaheadOf } from "./lookahead.ts";
import { NewTokenEstimate } from "./new_token_estimate.ts";
import { isAboutToBeComputed } from "./prefix_wait.ts";
import { leastToLose } from "./retraction_choice.ts";
import { buildStep, type Chunk, commitStep, type ScheduledStep } from "./scheduled_step.ts";
import type { SchedulerOptions } from "./scheduler_options.ts";
import type { Sequence } from "./sequence.ts";
import type { SequencePages } from "./sequence_pages.ts";
import { type LossFinding, Suspects } from "./suspects.ts";
import { WaitingQueue } from "./waiting_queue.ts";

export class Scheduler {
  readonly #pages: SequencePages;
  readonly #options: SchedulerOptions;
  readonly #estimate: NewTokenEstimate;
  readonly #waiting: WaitingQueue;
  /** In the order in which they were admitted. */
  readonly #running = new Set<Sequence>();
  /** Sequences that have pages, but whose contents are still to come. */
  readonly #arriving = new Set<Sequence>();
  /** Sequences that keep their pages when they end, and those that have ended. */
  readonly #toHold = new Set<Sequence>();
  readonly #held = new Set<Sequence>();
  readonly #suspects = new Suspects<Sequence>();
  readonly #drafts: DraftChoice;
  readonly #growing = (sequence: Sequence, tokens: number) => this.#grow(sequence, tokens);
  #retractions = 0;
  /** Steps scheduled so far, and those of them that are not committed. */
  #steps = 0;
  #inFlight = 0;
  /** The sequences whose prompts the newest step computes, while that is not shared. */
  #unshared: readonly Sequence[] = [];

  constructor(pages: SequencePages, options: SchedulerOptions) {
    this.#pages = pages;
    this.#options = options;
    this.#drafts = options.draftChoice ?? new AllDrafts(options.draftSteps ?? 0);
    this.#estimate = new NewTokenEstimate(options.conservativeness);
    this.#waiting = new WaitingQueue(options.policy, pages);
  }

  get runningCount(): number {
    return this.#running.size;
  }

  get waitingCount(): number {
    return this.#waiting.size;
  }

  /** How often a sequence had to give its pages back. */
  get retractions(): number {
    return this.#retractions;
  }

  get hasWork(): boolean {
    return this.#running.size + this.#waiting.size + this.#arriving.size > 0;
  }

  /**
   * Puts a sequence at the end of the queue.
   *
   * @throws {CapacityError} when the queue is full.
   */
  add(sequence: Sequence): void {
    const { maxQueuedRequests, maxRunningRequests } = this.#options;
    const room = maxQueuedRequests + Math.max(maxRunningRequests - this.#running.size, 0);
    if (this.#waiting.size >= room) {
      const state = `all ${maxQueuedRequests} are taken; the scheduler frees one when it admits a request`;
      throw new CapacityError("places in the request queue", maxQueuedRequests, state);
    }
    this.#waiting.add(sequence);
  }

  /** Forgets a sequence wherever it stands and frees its pages; nothing to do the second time. */
  remove(sequence: Sequence): void {
    const hasPages =
      this.#running.has(sequence) || this.#arriving.has(sequence) || this.#held.has(sequence);
    this.#forget(sequence);
    this.#toHold.delete(sequence);
    if (hasPages) this.#pages.release(sequence);
    this.#pages.drop(sequence);
    sequence.embeddings?.release();
  }

  #forget(sequence: Sequence): void {
    this.#waiting.delete(sequence);
    this.#running.delete(sequence);
    this.#arriving.delete(sequence);
    this.#held.delete(sequence);
    this.#suspects.forget(sequence);
    sequence.pending = 0;
  }

  /**
   * Keeps the pages of a sequence that ends by itself, and what they hold, until `remove`: a caller
   * is to read them. No other sequence gets them meanwhile, and the sequence takes no place.
   */
  hold(sequence: Sequence): void {
    this.#toHold.add(sequence);
  }

  /** Whether a sequence has ended and its pages are kept. */
  isHeld(sequence: Sequence): boolean {
    return this.#held.has(sequence);
  }

  /**
   * Gives a sequence that begins elsewhere a place, and pages for its first `computed` tokens, of
   * which it must have one more. They wait for what is to be written to them: then `admit` it, or
   * `remove` it.
   *
   * @returns The pages to write, behind those that the cache has already; `undefined` when there is
   * no place or no room now, and while suspects run apart.
   */
  reserve(
    sequence: Sequence,
    computed: number,
  ): { readonly cachedTokens: number; readonly pages: readonly number[] } | undefined {
    if (this.#isFull || this.#suspects.isSearching) return undefined;
    if (!this.#pages.attachShared(sequence, computed)) return undefined;
    const cachedTokens = sequence.computed;
    sequence.cachedTokens = cachedTokens;
    this.#arriving.add(sequence);
    return {
      cachedTokens,
      pages: sequence.pageTable.slice(this.#pages.pool.pagesFor(cachedTokens)),
    };
  }

  /** Lets a sequence run whose pages hold its first `computed` tokens now. */
  admit(sequence: Sequence, computed: number): void {
    if (!this.#arriving.delete(sequence)) {
      throw new KernelError("scheduler", "a sequence without reserved pages cannot be admitted");
    }
    this.#running.add(sequence);
    this.#pages.arrive(sequence, computed);
  }

  /**
   * Begins again on another device: steps in flight never end, and no page holds anything. Sequences
   * that ran wait before all other sequences, and what they have computed is computed again. Those
   * that begin elsewhere end with `error`, and those that are held are forgotten. One that loses the
   * device every time ends with a RequestLosesDeviceError; with `error` where its steps only fail.
   *
   * @returns What the loss tells of the sequences that were in flight, where it tells anything.
   */
  restart(error: Error, cause: "loss" | "failure" = "loss"): LossFinding<Sequence> | undefined {
    const finding = this.#suspects.lost([...this.#running]);
    this.#pages.lose(this.all());
    for (const sequence of [...this.#arriving, ...this.#held]) {
      if (sequence.finish === null) this.#fail(sequence, error);
      else this.remove(sequence);
    }
    for (const sequence of [...this.#running].reverse()) {
      sequence.restart();
      this.#waiting.putBack(sequence);
    }
    this.#running.clear();
    this.#unshared = [];
    this.#inFlight = 0;
    if (finding?.kind === "found") {
      const { sequence, losses } = finding;
      const own = new RequestLosesDeviceError(sequence.requestId, losses);
      this.#fail(sequence, cause === "loss" ? own : error);
    }
    return finding;
  }

  #fail(sequence: Sequence, error: unknown): void {
    this.remove(sequence);
    sequence.fail(error);
  }

  get #isFull(): boolean {
    return this.#running.size + this.#arriving.size >= this.#options.maxRunningRequests;
  }

  /** How far the next steps can be told. */
  get lookahead(): Lookahead {
    return lookaheadOf([...this.#running], this.#waiting.size);
  }

  /** Whether a sequence could go on if its next tokens were known. */
  get isUnprepared(): boolean {
    for (const one of this.#running) if (one.pending === 0 && !one.isPrepared) return true;
    return false;
  }

  /** Every sequence, running ones first. */
  all(): Sequence[] {
    return [...this.#running, ...this.#waiting.values(), ...this.#arriving, ...this.#held];
  }

  /**
   * The next step's batch; `undefined` when there is nothing to compute, or nothing before the
   * oldest step in flight is committed or more is known about next tokens.
   */
  schedule(): ScheduledStep | undefined {
    // A loss then tells of one step only.
    if (this.#suspects.isSearching && this.#inFlight > 0) return undefined;
    this.#share();
    this.#admit();
    for (;;) {
      const { size } = this.#running;
      const step = this.#options.mixedChunks ? this.#mixedStep() : this.#plainStep();
      if (step !== undefined || size === 0 || this.#inFlight > 0 || this.isUnprepared) return step;
      // Sequences may have waited for one that has failed; else no sequence gets a page, and the
      // one that has least to lose makes room.
      if (this.#running.size < size) this.#admit();
      else if (!this.#retract()) return undefined;
    }
  }

  /** Lets other sequences use the prompts that the newest step computes: they read them later. */
  #share(): void {
    for (const sequence of this.#unshared) {
      if (this.#running.has(sequence)) this.#pages.share(sequence);
    }
    this.#unshared = [];
  }

  /** Prompts, else generated rows: also where prompts find no page, so that sequences free some. */
  #plainStep(): ScheduledStep | undefined {
    const { maxPrefillRows, maxRows } = this.#options;
    const prompts = this.#promptChunks(Math.min(maxPrefillRows, maxRows));
    if (prompts.length > 0) return this.#build(prompts, 0);
    const generated = this.#generatedChunks();
    if (generated === undefined || generated.length === 0) return undefined;
    return this.#build(generated, generated.length);
  }

  /** Pages of generated rows come first: prompts that took them would be retracted at once. */
  #mixedStep(): ScheduledStep | undefined {
    const { maxPrefillRows, maxRows } = this.#options;
    const generated = this.#generatedChunks();
    if (generated === undefined) return undefined;
    const rows = generated.reduce((sum, { rows, drafts = [] }) => sum + rows + drafts.length, 0);
    const chunks = [...generated, ...this.#promptChunks(Math.min(maxPrefillRows, maxRows - rows))];
    return chunks.length === 0 ? undefined : this.#build(chunks, generated.length);
  }

  /** Takes over the oldest step in flight: sequences take what it sampled, and what it drafted. */
  commit(step: ScheduledStep, tokens: Uint32Array, proposed: readonly Uint32Array[] = []) {
    this.#inFlight -= 1;
    if (this.#inFlight === 0) this.#share();
    this.#estimate.step();
    const results = { tokens, proposed };
    const committed = commitStep(step, results, this.#drafts, (sequence, accept) => {
      // Some sequences have left, or an earlier token ended them, while the step ran.
      if (!this.#running.has(sequence)) return;
      sequence.pending -= 1;
      this.#orFail(sequence, accept);
      if (sequence.finish !== null) this.#end(sequence);
    });
    this.#drafts.known(this.#running);
    for (const sequence of this.#suspects.committed()) {
      if (!this.#suspects.mayRun(sequence)) this.#setAside(sequence);
    }
    return committed;
  }

  #end(sequence: Sequence): void {
    if (!this.#toHold.has(sequence)) this.remove(sequence);
    else this.#forget(sequence);
    if (this.#toHold.delete(sequence)) this.#held.add(sequence);
  }

  #admit(): void {
    if (this.#isFull || this.#waiting.size === 0) return;
    const { pageSize } = this.#pages.pool;
    let promised = 0;
    for (const one of this.#running) promised += this.#estimate.ofRunning(one);
    for (const sequence of this.#waiting.inOrder(this.#suspects)) {
      const cached = this.#pages.cachedPrefix(sequence);
      if (isAboutToBeComputed(sequence, this.#running, this.#pages)) return;
      const needed = sequence.tokens.length - cached + this.#estimate.ofNew(sequence);
      const room = this.#pages.available * pageSize - promised;
      // The first one always gets its chance: that it fits the cache was checked when it came.
      if (needed > room && this.#running.size > 0) return;
      if (!this.#hasRoom(sequence, () => this.#pages.attach(sequence))) return;
      if (sequence.finish !== null) continue;
      this.#waiting.admit(sequence);
      sequence.cachedTokens ??= sequence.computed;
      this.#running.add(sequence);
      promised += this.#estimate.ofRunning(sequence);
      if (this.#isFull) return;
    }
  }

  /**
   * One row of each sequence that decodes; of a retracted one as many as there is room for.
   *
   * @returns `undefined` when steps in flight have to be committed first.
   */
  #generatedChunks(): Chunk[] | undefined {
    const { maxRunningRequests, maxRows, contextLength } = this.#options;
    const { maxGeneratedRows = maxRunningRequests } = this.#options;
    const ready = () => [...this.#running].filter((one) => isReady(one, contextLength));
    // A sequence that makes room may itself be one of these.
    for (const sequence of ready()) {
      // The GPU keeps what the newest step samples, and no more.
      if (sequence.pending > 0 && sequence.sampledIn !== this.#steps) return undefined;
      while (this.#running.has(sequence)) {
        if (this.#grow(sequence, computedAtMost(sequence) + 1)) break;
        if (this.#inFlight > 0 || !this.#retract()) return undefined;
      }
    }
    const most = Math.min(maxGeneratedRows, maxRows);
    const rows = ready();
    const limits = this.#drafts.limits(rows);
    return generatedChunks(rows, most, { ...this.#options, limits, grow: this.#growing });
  }

  #promptChunks(room: number): Chunk[] {
    const own = { pages: this.#pages, grow: this.#growing };
    return promptChunks([...this.#running], room, { ...this.#options, ...own });
  }

  #grow(sequence: Sequence, tokens: number): boolean {
    return this.#hasRoom(sequence, () => this.#pages.grow(sequence, tokens));
  }

  /** Whether there is room for the pages that a sequence takes, or an error has ended it. */
  #hasRoom(sequence: Sequence, takePages: () => boolean): boolean {
    let hasRoom = true;
    this.#orFail(sequence, () => {
      hasRoom = takePages();
    });
    return hasRoom;
  }

  /** What goes wrong with one sequence ends this one, which needs no pages then, and no other. */
  #orFail(sequence: Sequence, work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#fail(sequence, error);
    }
  }

  /**
   * Takes the pages of a running sequence.
   *
   * @returns Whether there was one; else pages come back only from sequences that are elsewhere.
   */
  #retract(): boolean {
    const victim = leastToLose(this.#running);
    if (victim === undefined || this.#running.size === 1) {
      if (this.#arriving.size + this.#held.size + this.#pages.borrowerCount > 0) return false;
      throw new KernelError("scheduler", "one sequence alone does not fit the cache");
    }
    this.#setAside(victim);
    this.#retractions += 1;
    this.#estimate.retracted(this.#running);
    return true;
  }

  /** Has a running sequence wait, without its pages. No step in flight may have rows of it. */
  #setAside(sequence: Sequence): void {
    this.#orFail(sequence, () => this.#pages.retract(sequence));
    if (sequence.finish !== null) return;
    this.#running.delete(sequence);
    sequence.retractions += 1;
    this.#waiting.putBack(sequence);
  }

  #build(chunks: readonly Chunk[], generatedChunks: number): ScheduledStep {
    this.#steps += 1;
    this.#inFlight += 1;
    const drafts = this.#drafts.workOf(chunks, this.#running.size);
    growForDrafts(chunks, this.#pages, drafts, this.#options);
    const step = buildStep(chunks, { generatedChunks, number: this.#steps, drafts });
    this.#suspects.scheduled(step.progress);
    this.#unshared = chunks.slice(generatedChunks).map(({ sequence }) => sequence);
    return { ...step, transfers: this.#pages.takeTransfers() };
  }
}
