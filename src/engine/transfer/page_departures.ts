/**
 * Pages of prompts on their way to another engine, which gives the answers.
 *
 * Pages are read as soon as a step that computed them is committed, while the next chunks of the
 * prompt are computed. A sequence may be retracted, or its device may be lost, while pages of it are
 * read: then what was read is nothing, and is read again once it is computed again. Its pages are
 * held from its end until the last ones have left.
 *
 * @module
 */
import type { PageCodec } from "../../cache/page_codec.ts";
import { DeviceError } from "../../errors.ts";
import type { ScheduledStep } from "../schedule/scheduled_step.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import type { Sequence } from "../schedule/sequence.ts";
import { WakeUp } from "../step/wake_up.ts";
import { type PageTaker, travellingPrompt } from "./page_routes.ts";

/** Bytes of pages that are read at once, unless one page has more. */
const READ_BYTES = 4 * 2 ** 20;

export interface PageDeparturesOptions {
  readonly codec: Pick<PageCodec, "readPages" | "packedBytes">;
  readonly scheduler: Scheduler;
  readonly pageSize: number;
  /** Called when pages are free that others may wait for. */
  readonly wake: () => void;
}

interface Departure {
  readonly sequence: Sequence;
  readonly taker: PageTaker;
  /** Called when there may be more to read, or nothing any more. */
  readonly news: WakeUp;
  /** Tokens whose pages may be read, since the sequence's last retraction. */
  computed: number;
  retractions: number;
  isOver: boolean;
}

export class PageDepartures {
  readonly #options: PageDeparturesOptions;
  readonly #all = new Map<Sequence, Departure>();
  /** Of sequences of which no page is wanted yet. */
  readonly #beginning = new Set<PageTaker>();
  readonly #mostPages: number;

  constructor(options: PageDeparturesOptions) {
    this.#options = options;
    const { codec } = options;
    const page = codec.packedBytes(2) - codec.packedBytes(1);
    this.#mostPages = Math.max(Math.floor(READ_BYTES / page), 1);
  }

  /** Sequences whose pages have not all left. */
  get count(): number {
    return this.#all.size;
  }

  /** Resolves when pages of a new sequence are wanted: then it may be scheduled. */
  async begin(sequence: Sequence, taker: PageTaker, isOver: () => boolean): Promise<void> {
    const { pageSize, scheduler } = this.#options;
    const prompt = travellingPrompt(sequence, pageSize);
    this.#beginning.add(taker);
    let first: number;
    try {
      first = await taker.begin(prompt);
    } finally {
      this.#beginning.delete(taker);
    }
    if (isOver()) return;
    const progress = { computed: 0, retractions: 0, isOver: false };
    const departure: Departure = { sequence, taker, news: new WakeUp(), ...progress };
    const { signal } = taker;
    if (signal.aborted) throw signal.reason;
    const onAbort = () => {
      if (departure.isOver) return;
      this.#end(departure);
      sequence.fail(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    this.#all.set(sequence, departure);
    scheduler.hold(sequence);
    this.#send(departure, first, prompt.pageCount).catch((error: unknown) => {
      if (departure.isOver) return;
      this.#end(departure);
      taker.fail(error);
      sequence.fail(error);
    });
  }

  /** Takes note of what a step has computed. */
  committed({ progress }: ScheduledStep): void {
    if (this.#all.size === 0) return;
    for (const { sequence, computed } of progress) {
      const departure = this.#all.get(sequence);
      if (departure === undefined) continue;
      departure.computed = computed;
      departure.retractions = sequence.retractions;
      departure.news.call();
    }
  }

  /** Whether a sequence that has ended by itself is kept until its pages have left. */
  keeps(sequence: Sequence): boolean {
    const { finish } = sequence;
    return this.#all.has(sequence) && finish !== null && finish.type !== "abort";
  }

  /** Forgets a sequence, whose pages are not taken any more. */
  forget(sequence: Sequence): void {
    const departure = this.#all.get(sequence);
    if (departure !== undefined) this.#end(departure);
  }

  /** Looks whether sequences are still there, as the device was lost. */
  lost(): void {
    for (const { news } of [...this.#all.values()]) news.call();
  }

  /** Ends all that are there, or begin. */
  close(error: Error): void {
    for (const taker of [...this.#beginning]) taker.fail(error);
    for (const departure of [...this.#all.values()]) {
      this.#end(departure);
      departure.taker.fail(error);
    }
  }

  #end(departure: Departure): void {
    if (departure.isOver) return;
    departure.isOver = true;
    this.#all.delete(departure.sequence);
    this.#options.scheduler.remove(departure.sequence);
    departure.news.call();
    this.#options.wake();
  }

  async #send(departure: Departure, first: number, pageCount: number): Promise<void> {
    const { sequence, taker, news } = departure;
    for (let next = first; next < pageCount; ) {
      const ready = this.#ready(departure, pageCount);
      if (ready <= next) {
        await news.wait();
        if (departure.isOver) return;
        continue;
      }
      const count = Math.min(ready - next, this.#mostPages);
      const bytes = await this.#read(departure, next, count);
      if (departure.isOver) return;
      if (bytes === undefined) continue;
      await taker.take({ first: next, count, bytes });
      if (departure.isOver) return;
      next += count;
    }
    // It is computed to its end all the same: its first token tells that it works.
    while (sequence.finish === null) {
      await news.wait();
      if (departure.isOver) return;
    }
    taker.end(sequence.cachedTokens ?? 0);
    this.#end(departure);
  }

  /** Pages that may be read. @throws {DeviceError} when those of a sequence that has ended are lost. */
  #ready({ sequence, computed, retractions }: Departure, pageCount: number): number {
    if (sequence.finish !== null && !this.#options.scheduler.isHeld(sequence)) {
      throw new DeviceError("Cannot send cache pages: the device is lost");
    }
    if (sequence.retractions !== retractions) return 0;
    const isWhole = computed >= sequence.promptLength - 1;
    return isWhole ? pageCount : Math.floor(computed / this.#options.pageSize);
  }

  /** @returns Undefined where they were not the sequence's all the while. */
  async #read(
    departure: Departure,
    first: number,
    count: number,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { sequence, news } = departure;
    const { retractions } = sequence;
    const own = () => sequence.pageTable.slice(first, first + count);
    const pages = own();
    let bytes: Uint8Array<ArrayBuffer>;
    try {
      bytes = await this.#options.codec.readPages(pages);
    } catch (error) {
      if (!(error instanceof DeviceError)) throw error;
      // It is computed again, and read then; where it cannot be, all requests end.
      if (sequence.finish === null && sequence.retractions === retractions) await news.wait();
      return undefined;
    }
    const now = own();
    const isOwn = pages.length === count && pages.every((page, i) => page === now[i]);
    return isOwn && sequence.retractions === retractions ? bytes : undefined;
  }
}
