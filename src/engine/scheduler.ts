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
 * Steps may be scheduled while others are in flight: what those sample is not known yet, but where
 * it will be on the GPU is. Work is submitted in the order of the schedule, so pages are given on
 * at once, and a sequence that turns out to have ended has merely had a row too many.
 *
 * @module
 */
import { FROM_EXTERNAL, FROM_SAMPLED } from "../../kernels/embedding/embedding.ts";
import { CapacityError, KernelError } from "../errors.ts";
import type { Batch, BatchSequence } from "../layers/batch.ts";
import { NewTokenEstimate } from "./new_token_estimate.ts";
import type { PageTransfers } from "./page_transfers.ts";
import { isAboutToBeComputed } from "./prefix_wait.ts";
import { inOrder, type SchedulePolicy } from "./schedule_policy.ts";
import type { Sequence } from "./sequence.ts";
import type { SequencePages } from "./sequence_pages.ts";

export interface SchedulerOptions {
  /** Sequences that may run at once; also generated rows of one step at most. */
  readonly maxRunningRequests: number;
  /** Sequences that may wait. */
  readonly maxQueuedRequests: number;
  /** Rows of one step. */
  readonly maxRows: number;
  /** Prompt rows of one step. */
  readonly maxPrefillRows: number;
  /** Prompt rows of one step beyond its first sequence's. */
  readonly maxPrefillTokens: number;
  /** Keys that the prompt rows of one step may look at; one sequence's always fit. */
  readonly maxPrefillKeys: number;
  /** Prompt rows of one step whose logits may be wanted, at least 1. Default 1. */
  readonly maxScoredRows?: number;
  /** Whether a step may hold prompt rows beside generated ones. */
  readonly mixedChunks: boolean;
  readonly policy: SchedulePolicy;
  /** Above 1 more room is kept for what running sequences will still generate, below 1 less. */
  readonly conservativeness: number;
}

/** A batch and what its logit rows are for: first those that are sampled, then those to score. */
export interface ScheduledStep {
  readonly batch: Batch;
  readonly sampled: readonly Sequence[];
  /** Prompt rows whose log-probabilities are wanted. */
  readonly scored: readonly { readonly sequence: Sequence; readonly position: number }[];
  /** Every sequence with rows in the batch, with the tokens it will have computed after it. */
  readonly progress: readonly { readonly sequence: Sequence; readonly computed: number }[];
  /** Pages that have to move before it runs. */
  readonly transfers: PageTransfers;
}

interface Chunk {
  readonly sequence: Sequence;
  readonly rows: number;
}

export class Scheduler {
  readonly #pages: SequencePages;
  readonly #options: SchedulerOptions;
  readonly #estimate: NewTokenEstimate;
  #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  #retractions = 0;
  #arrivals = 0;
  /** Steps scheduled so far, and those of them that are not committed. */
  #steps = 0;
  #inFlight = 0;
  /** The sequences of the newest step whose pages are not shared yet. */
  #unshared: ScheduledStep["progress"] = [];

  constructor(pages: SequencePages, options: SchedulerOptions) {
    this.#pages = pages;
    this.#options = options;
    this.#estimate = new NewTokenEstimate(options.conservativeness);
  }

  get runningCount(): number {
    return this.#running.length;
  }

  get waitingCount(): number {
    return this.#waiting.length;
  }

  /** How often a sequence had to give its pages back. */
  get retractions(): number {
    return this.#retractions;
  }

  get hasWork(): boolean {
    return this.#running.length + this.#waiting.length > 0;
  }

  /**
   * Puts a sequence at the end of the queue.
   *
   * @throws {CapacityError} when the queue is full.
   */
  add(sequence: Sequence): void {
    const { maxQueuedRequests, maxRunningRequests } = this.#options;
    const room = maxQueuedRequests + Math.max(maxRunningRequests - this.#running.length, 0);
    if (this.#waiting.length >= room) throw new CapacityError("queue places", maxQueuedRequests);
    this.#arrivals += 1;
    sequence.arrival = this.#arrivals;
    this.#waiting.push(sequence);
  }

  /** Forgets a sequence wherever it stands and frees its pages; nothing to do the second time. */
  remove(sequence: Sequence): void {
    this.#waiting = this.#waiting.filter((other) => other !== sequence);
    this.#removeRunning(sequence);
    this.#pages.drop(sequence);
    sequence.embeddings?.release();
  }

  #removeRunning(sequence: Sequence): void {
    if (!this.#running.includes(sequence)) return;
    this.#running = this.#running.filter((other) => other !== sequence);
    sequence.pending = 0;
    this.#pages.release(sequence);
  }

  /** Whether steps can only go on as they are: nobody waits for a place or for the host. */
  get isSteady(): boolean {
    const goesOn = (one: Sequence) => one.computed >= one.promptLength && one.runsAhead;
    return this.#waiting.length === 0 && this.#running.every(goesOn);
  }

  /** Every sequence, running ones first. */
  all(): Sequence[] {
    return [...this.#running, ...this.#waiting];
  }

  /**
   * The next step's batch; `undefined` when there is nothing to compute, or nothing before the
   * oldest step in flight is committed.
   */
  schedule(): ScheduledStep | undefined {
    this.#share();
    this.#admit();
    for (;;) {
      const { length } = this.#running;
      const step = this.#options.mixedChunks ? this.#mixedStep() : this.#plainStep();
      if (step !== undefined || length === 0 || this.#inFlight > 0) return step;
      // Others may have waited for one that has failed; else nobody gets a page, and the one that
      // has least to lose makes room.
      if (this.#running.length < length) this.#admit();
      else this.#retract();
    }
  }

  /** Lets others use what the newest step computes: whatever they do with it runs after it. */
  #share(): void {
    for (const { sequence } of this.#unshared) {
      if (this.#running.includes(sequence)) this.#pages.share(sequence);
    }
    this.#unshared = [];
  }

  /** Prompts, else generated rows: also where prompts find no page, so that others end and leave some. */
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
    const rows = generated.reduce((sum, chunk) => sum + chunk.rows, 0);
    const prompts = this.#promptChunks(Math.min(maxPrefillRows, maxRows - rows));
    const chunks = [...generated, ...prompts];
    return chunks.length === 0 ? undefined : this.#build(chunks, generated.length);
  }

  /** Takes over the oldest step in flight: the tokens it sampled are appended. */
  commit(step: ScheduledStep, tokens: Uint32Array): void {
    if (step.progress === this.#unshared) this.#share();
    this.#inFlight -= 1;
    this.#estimate.step();
    step.sampled.forEach((sequence, i) => {
      // Others have left, or an earlier token ended them, while the step ran.
      if (!this.#running.includes(sequence)) return;
      sequence.pending -= 1;
      sequence.append(tokens[i]!);
      if (sequence.finish !== null) this.remove(sequence);
    });
  }

  #admit(): void {
    const isFull = this.#running.length >= this.#options.maxRunningRequests;
    if (isFull || this.#waiting.length === 0) return;
    for (const sequence of inOrder(this.#options.policy, this.#waiting, this.#pages)) {
      if (this.#running.length >= this.#options.maxRunningRequests) return;
      const cached = this.#pages.cachedPrefix(sequence);
      if (isAboutToBeComputed(sequence, this.#running, this.#pages)) return;
      const { pageSize } = this.#pages.pool;
      const needed = sequence.tokens.length - cached + this.#estimate.ofNew(sequence);
      const promised = this.#running.reduce((sum, one) => sum + this.#estimate.ofRunning(one), 0);
      const room = this.#pages.available * pageSize - promised;
      // The first one always gets its chance: that it fits the cache was checked when it came.
      if (needed > room && this.#running.length > 0) return;
      if (!this.#hasRoom(sequence, () => this.#pages.attach(sequence))) return;
      if (sequence.finish !== null) continue;
      this.#waiting = this.#waiting.filter((other) => other !== sequence);
      sequence.cachedTokens ??= sequence.computed;
      for (const other of this.#waiting) if (other.arrival < sequence.arrival) other.overtaken += 1;
      this.#running.push(sequence);
    }
  }

  /**
   * One row of each sequence that decodes; of a retracted one as many as there is room for.
   *
   * @returns `undefined` when steps in flight have to be committed first.
   */
  #generatedChunks(): Chunk[] | undefined {
    const { maxRunningRequests, maxRows } = this.#options;
    const isReady = (sequence: Sequence) =>
      sequence.computed >= sequence.promptLength &&
      sequence.computed < sequence.length &&
      (sequence.pending === 0 || sequence.runsAhead);
    // A sequence that makes room may itself be one of these.
    for (const sequence of this.#running.filter(isReady)) {
      // The GPU keeps what the newest step samples, and no more.
      if (sequence.pending > 0 && sequence.sampledIn !== this.#steps) return undefined;
      while (this.#running.includes(sequence)) {
        if (this.#grow(sequence, sequence.computed + 1)) break;
        if (this.#inFlight > 0) return undefined;
        this.#retract();
      }
    }
    const ready = this.#running.filter(isReady);
    let room = Math.min(maxRunningRequests, maxRows) - ready.length;
    const chunks = ready.map((sequence) => {
      let rows = 1;
      const missing = sequence.length - sequence.computed - 1;
      const more = Math.min(missing, room);
      if (more > 0 && this.#grow(sequence, sequence.computed + 1 + more)) {
        rows += more;
        room -= more;
      }
      return { sequence, rows };
    });
    return chunks.filter(({ sequence }) => sequence.finish === null);
  }

  #grow(sequence: Sequence, tokens: number): boolean {
    return this.#hasRoom(sequence, () => this.#pages.grow(sequence, tokens));
  }

  /**
   * Takes pages for a sequence. An error in that ends this one, which then needs none, and no other.
   *
   * @returns Whether there is room.
   */
  #hasRoom(sequence: Sequence, takePages: () => boolean): boolean {
    try {
      return takePages();
    } catch (error) {
      this.remove(sequence);
      sequence.fail(error);
      return true;
    }
  }

  #promptChunks(room: number): Chunk[] {
    const chunks: Chunk[] = [];
    let left = room;
    let keys = 0;
    let total = 0;
    let scored = this.#options.maxScoredRows ?? 1;
    for (const sequence of this.#running) {
      const { computed, promptLength, logprobs } = sequence;
      if (computed >= promptLength) continue;
      const fits = this.#pages.roomFor(sequence) - computed;
      let rows = Math.min(promptLength - computed, left, fits);
      if (logprobs !== undefined) {
        const [most, wanted] = logprobs.fit(computed, rows, scored);
        rows = most;
        scored -= wanted;
      }
      keys += computed + rows;
      if (rows <= 0 || keys > this.#options.maxPrefillKeys) break;
      if (chunks.length > 0 && total + rows > this.#options.maxPrefillTokens) break;
      if (!this.#grow(sequence, computed + rows)) break;
      if (sequence.finish !== null) continue;
      chunks.push({ sequence, rows });
      left -= rows;
      total += rows;
    }
    return chunks;
  }

  /** Takes the pages of the sequence with the shortest answer so far, then the longest prompt. */
  #retract(): void {
    const [victim] = [...this.#running].sort(
      (a, b) => a.completionLength - b.completionLength || b.promptLength - a.promptLength,
    );
    if (victim === undefined || this.#running.length === 1) {
      throw new KernelError("scheduler", "one sequence alone does not fit the cache");
    }
    this.#running = this.#running.filter((other) => other !== victim);
    this.#pages.retract(victim);
    victim.retractions += 1;
    this.#retractions += 1;
    this.#waiting.unshift(victim);
    this.#estimate.retracted(this.#running);
  }

  #build(chunks: readonly Chunk[], generatedChunks: number): ScheduledStep {
    const rowCount = chunks.reduce((sum, { rows }) => sum + rows, 0);
    const sources = new Uint32Array(rowCount);
    const sequences: BatchSequence[] = [];
    const logitRows: number[] = [];
    const sampled: Sequence[] = [];
    const external: Float32Array<ArrayBuffer>[] = [];
    let externalRows = 0;
    const scored: { sequence: Sequence; position: number; row: number }[] = [];
    let row = 0;
    this.#steps += 1;
    const progress = chunks.map(({ sequence, rows }, i) => {
      const position = sequence.computed;
      const computed = position + rows;
      const embedded = Math.min(sequence.embeddedLength - position, rows);
      if (embedded > 0) external.push(sequence.embeddings!.slice(position, embedded));
      for (let j = 0; j < rows; j++) {
        sources[row + j] =
          j < embedded
            ? FROM_EXTERNAL + externalRows++
            : (sequence.tokens[position + j] ?? FROM_SAMPLED | sequence.sampledAt);
        if (sequence.logprobs?.wantsRow(position + j)) {
          scored.push({ sequence, position: position + j, row: row + j });
        }
      }
      sequences.push({
        phase: i < generatedChunks ? "decode" : "prefill",
        queryStart: row,
        queryLength: rows,
        position,
        pageTable: sequence.pageTable,
      });
      row += rows;
      if (computed === sequence.length) {
        logitRows.push(row - 1);
        sequence.pending += 1;
        sequence.sampledIn = this.#steps;
        sequence.sampledAt = sampled.length;
        sampled.push(sequence);
      }
      sequence.computed = computed;
      return { sequence, computed };
    });
    for (const one of scored) logitRows.push(one.row);
    this.#inFlight += 1;
    this.#unshared = progress;
    return {
      batch: { sequences, sources, external, logitRows: Uint32Array.from(logitRows) },
      sampled,
      scored,
      progress,
      transfers: this.#pages.takeTransfers(),
    };
  }
}
