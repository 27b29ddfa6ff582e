/**
 * Prompts whose pages another engine computes: they wait for a place, then for their pages, and run
 * from there. What the cache has of them is not asked for.
 *
 * The last token of a prompt is computed here, as if the cache had all before it: so its answer, from
 * the first token on, is drawn, constrained and drafted where it is given.
 *
 * Places are taken while the engine is at rest, in the order in which prompts came. Pages that are
 * being written belong to their sequence until they are, whatever becomes of it.
 *
 * @module
 */
import type { PageCodec } from "../../cache/page_codec.ts";
import { DeviceError, TransferError } from "../../errors.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import type { Sequence } from "../schedule/sequence.ts";
import type { SequencePages } from "../schedule/sequence_pages.ts";
import { type PageSource, type TravellingPrompt, travellingPrompt } from "./page_routes.ts";

export interface PageArrivalsOptions {
  readonly codec: Pick<PageCodec, "writePages">;
  readonly scheduler: Scheduler;
  readonly pages: SequencePages;
  /** Tokens that are kept free for each sequence that has pages. */
  readonly reservedTokens: number;
  /** Whether no step is being scheduled or computed. */
  readonly isIdle: () => boolean;
  /** Called when the engine's loop may have something to do. */
  readonly wake: () => void;
}

interface Arrival {
  readonly prompt: TravellingPrompt;
  readonly source: PageSource;
  /** Resolves its wait with the tokens that it has; rejects it where it cannot have a place. */
  readonly placed: (cachedTokens: number | undefined) => void;
  readonly fail: (error: unknown) => void;
}

/** A prompt that has a place. */
interface Placed {
  readonly source: PageSource;
  /** Whether pages of it are being written. */
  isWriting: boolean;
  isOver: boolean;
}

export class PageArrivals {
  readonly #options: PageArrivalsOptions;
  /** Prompts without a place. */
  readonly #waiting = new Map<Sequence, Arrival>();
  readonly #arriving = new Map<Sequence, Placed>();
  /** Why no prompt gets a place any more. */
  #failure: Error | undefined;

  constructor(options: PageArrivalsOptions) {
    this.#options = options;
  }

  get waitingCount(): number {
    return this.#waiting.size;
  }

  get arrivingCount(): number {
    return this.#arriving.size;
  }

  /** Whether pages are being written, which no other sequence may have meanwhile. */
  get isWriting(): boolean {
    for (const { isWriting } of this.#arriving.values()) if (isWriting) return true;
    return false;
  }

  /** Says that everything scheduled is submitted. */
  rest(): void {
    if (this.#failure !== undefined) return;
    if (this.#waiting.size === 0 || this.#options.pages.isMoving) return;
    for (const [sequence, { prompt, source, placed, fail }] of this.#waiting) {
      let cachedTokens: number | undefined;
      try {
        cachedTokens = this.#reserve(sequence, prompt);
      } catch (error) {
        this.#waiting.delete(sequence);
        fail(error);
        continue;
      }
      if (cachedTokens === undefined) return;
      this.#waiting.delete(sequence);
      this.#arriving.set(sequence, { source, isWriting: false, isOver: false });
      placed(cachedTokens);
    }
  }

  #reserve(sequence: Sequence, { tokens }: TravellingPrompt): number | undefined {
    const { scheduler, pages, reservedTokens } = this.#options;
    // Retracted ones go first: their clients read already.
    if (scheduler.waitingCount > 0) return undefined;
    const others = scheduler.runningCount + this.#arriving.size;
    const room = pages.available * pages.pool.pageSize - reservedTokens * others;
    if (others > 0 && tokens.length > room + pages.cachedPrefix(sequence)) return undefined;
    return scheduler.reserve(sequence, tokens.length - 1)?.cachedTokens;
  }

  /**
   * Brings the pages of a prompt.
   *
   * @returns Whether the sequence runs now: not where it has left meanwhile.
   * @throws {TransferError} naming what is wrong with pages, and what the source throws.
   */
  async bring(sequence: Sequence, source: PageSource): Promise<boolean> {
    const { pages, scheduler, wake } = this.#options;
    const prompt = travellingPrompt(sequence, pages.pool.pageSize);
    source.announce(prompt);
    try {
      const cachedTokens = await this.#place(sequence, prompt, source);
      if (cachedTokens === undefined) return false;
      const first = pages.pool.pagesFor(cachedTokens);
      if (!(await this.#write(sequence, source, { first, end: prompt.pageCount }))) return false;
      this.#arriving.delete(sequence);
      scheduler.admit(sequence, prompt.tokens.length - 1);
      return true;
    } finally {
      this.#leave(sequence);
      source.leave();
      wake();
    }
  }

  /** Ends an arrival, wherever it stands; nothing to do for others. */
  leave(sequence: Sequence): void {
    const waiting = this.#waiting.get(sequence);
    this.#waiting.delete(sequence);
    waiting?.placed(undefined);
    const arriving = this.#arriving.get(sequence);
    if (arriving === undefined) return;
    arriving.isOver = true;
    arriving.source.leave();
  }

  /** Ends all that are there: no prompt gets a place any more. */
  close(error: Error): void {
    this.#failure ??= error;
    const waiting = [...this.#waiting.values()];
    this.#waiting.clear();
    for (const { fail } of waiting) fail(error);
    for (const sequence of [...this.#arriving.keys()]) this.leave(sequence);
  }

  /** Whether its pages are being written: then they are freed once they are. */
  keeps(sequence: Sequence): boolean {
    return this.#arriving.get(sequence)?.isWriting === true;
  }

  #leave(sequence: Sequence): void {
    this.leave(sequence);
    // What was admitted is not among these.
    if (this.#arriving.delete(sequence)) this.#options.scheduler.remove(sequence);
  }

  #place(
    sequence: Sequence,
    prompt: TravellingPrompt,
    source: PageSource,
  ): Promise<number | undefined> {
    return new Promise((placed, fail) => {
      this.#waiting.set(sequence, { prompt, source, placed, fail });
      if (this.#options.isIdle()) this.rest();
      else this.#options.wake();
    });
  }

  /** @returns Whether all are there, and the sequence too. */
  async #write(
    sequence: Sequence,
    source: PageSource,
    { first, end }: { readonly first: number; readonly end: number },
  ): Promise<boolean> {
    const state = this.#arriving.get(sequence)!;
    let next = first;
    for await (const run of source.pages(first)) {
      if (state.isOver) return false;
      if (run.first !== next || run.count < 1 || run.first + run.count > end) {
        const problem = `they are ${run.count} from page ${run.first} on, and page ${next} of ${end} is next`;
        throw new TransferError("cache pages", "order", problem);
      }
      state.isWriting = true;
      try {
        const target = sequence.pageTable.slice(next, next + run.count);
        await this.#options.codec.writePages(run.bytes, target);
      } catch (error) {
        // The sequence has ended with an error of its own where the device is lost.
        if (error instanceof DeviceError && state.isOver) return false;
        throw error;
      } finally {
        state.isWriting = false;
        this.#options.wake();
      }
      if (state.isOver) return false;
      next += run.count;
    }
    if (next < end) {
      const problem = `they end before page ${next} of ${end}`;
      throw new TransferError("cache pages", "count", problem);
    }
    return !state.isOver;
  }
}
