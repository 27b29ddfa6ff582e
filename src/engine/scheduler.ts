/**
 * Decides which rows the next step computes. No GPU call is made here.
 *
 * Every running sequence whose prompt is done decodes one row a step; what is left of the step's
 * rows goes to prompts, first come first served, in chunks. A sequence is admitted when the pages
 * of its whole possible length are free, so it never runs out of cache; pages are taken as it
 * grows. Nobody overtakes: the sequence at the head of the queue waits for pages, and the others
 * behind it.
 *
 * @module
 */
import type { PagePool } from "../cache/page_pool.ts";
import { CapacityError } from "../errors.ts";
import type { Batch, BatchSequence } from "../layers/batch.ts";
import type { Sequence } from "./sequence.ts";

export interface SchedulerOptions {
  /** Sequences that may run at once. */
  readonly maxRunningRequests: number;
  /** Sequences that may wait. */
  readonly maxQueuedRequests: number;
  /** Rows of one step. */
  readonly maxRows: number;
  /** Prompt rows of one step. */
  readonly maxPrefillRows: number;
  /** Keys that the prompt rows of one step may look at; one sequence's always fit. */
  readonly maxPrefillKeys: number;
}

/** A batch and, for each of its logit rows, the sequence that samples from it. */
export interface ScheduledStep {
  readonly batch: Batch;
  readonly sampled: readonly Sequence[];
  /** Every sequence with rows in the batch, with the tokens it will have computed after it. */
  readonly progress: readonly { readonly sequence: Sequence; readonly computed: number }[];
}

export class Scheduler {
  readonly #pool: PagePool;
  readonly #options: SchedulerOptions;
  readonly #waiting: Sequence[] = [];
  #running: Sequence[] = [];
  #reserved = 0;

  constructor(pool: PagePool, options: SchedulerOptions) {
    this.#pool = pool;
    this.#options = options;
  }

  get runningCount(): number {
    return this.#running.length;
  }

  get waitingCount(): number {
    return this.#waiting.length;
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
    this.#waiting.push(sequence);
  }

  /** Forgets a sequence wherever it stands and frees its pages; nothing to do the second time. */
  remove(sequence: Sequence): void {
    const waiting = this.#waiting.indexOf(sequence);
    if (waiting >= 0) this.#waiting.splice(waiting, 1);
    if (this.#running.includes(sequence)) this.#release(sequence);
  }

  /** Every sequence, running ones first. */
  all(): Sequence[] {
    return [...this.#running, ...this.#waiting];
  }

  /** The next step's batch; `undefined` when there is nothing to compute. */
  schedule(): ScheduledStep | undefined {
    this.#admit();
    const { maxRows, maxPrefillRows, maxPrefillKeys } = this.#options;
    const isDecoding = (s: Sequence) =>
      s.tokens.length - s.computed === 1 && s.completionLength > 0;
    const decoding = this.#running.filter(isDecoding);
    let room = Math.min(maxPrefillRows, maxRows - decoding.length);
    let keys = 0;
    const chunks: { sequence: Sequence; rows: number }[] = [];
    for (const sequence of decoding) chunks.push({ sequence, rows: 1 });
    for (const sequence of this.#running) {
      if (isDecoding(sequence) || room <= 0) continue;
      const rows = Math.min(sequence.tokens.length - sequence.computed, room);
      keys += sequence.computed + rows;
      if (keys > maxPrefillKeys) break;
      chunks.push({ sequence, rows });
      room -= rows;
    }
    if (chunks.length === 0) return undefined;
    return this.#build(chunks, decoding.length);
  }

  /** Takes over a finished step: progress is kept, sampled tokens are appended. */
  commit(step: ScheduledStep, tokens: Uint32Array): void {
    for (const { sequence, computed } of step.progress) sequence.computed = computed;
    step.sampled.forEach((sequence, i) => {
      if (sequence.finish !== null) return; // aborted while the step ran
      sequence.append(tokens[i]!);
      if (sequence.finish !== null) this.remove(sequence);
    });
  }

  #admit(): void {
    while (this.#running.length < this.#options.maxRunningRequests) {
      const next = this.#waiting[0];
      if (next === undefined) return;
      const pages = this.#pool.pagesFor(next.maxCachedTokens);
      if (this.#reserved + pages > this.#pool.pageCount) return;
      this.#waiting.shift();
      next.reservedPages = pages;
      this.#reserved += pages;
      this.#running.push(next);
    }
  }

  #release(sequence: Sequence): void {
    this.#running = this.#running.filter((other) => other !== sequence);
    this.#pool.release(sequence.pageTable);
    sequence.pageTable = [];
    this.#reserved -= sequence.reservedPages;
    sequence.reservedPages = 0;
  }

  #build(
    chunks: readonly { sequence: Sequence; rows: number }[],
    decodeRows: number,
  ): ScheduledStep {
    const rowCount = chunks.reduce((sum, { rows }) => sum + rows, 0);
    const sources = new Uint32Array(rowCount);
    const sequences: BatchSequence[] = [];
    const logitRows: number[] = [];
    const sampled: Sequence[] = [];
    let row = 0;
    const progress = chunks.map(({ sequence, rows }, i) => {
      const position = sequence.computed;
      const computed = position + rows;
      const missing = this.#pool.pagesFor(computed) - sequence.pageTable.length;
      if (missing > 0) sequence.pageTable.push(...this.#pool.allocate(missing));
      for (let j = 0; j < rows; j++) sources[row + j] = sequence.tokens[position + j]!;
      sequences.push({
        phase: i < decodeRows ? "decode" : "prefill",
        queryStart: row,
        queryLength: rows,
        position,
        pageTable: sequence.pageTable,
      });
      row += rows;
      if (computed === sequence.tokens.length) {
        logitRows.push(row - 1);
        sampled.push(sequence);
      }
      return { sequence, computed };
    });
    return {
      batch: { sequences, sources, logitRows: Uint32Array.from(logitRows) },
      sampled,
      progress,
    };
  }
}
