/**
 * Prefixes on their way between the cache and the store that outlives the engine.
 *
 * | way | when | what |
 * |---|---|---|
 * | into the store | a prompt's first token is sampled | what its request asks to store, and what
 * it found in the cache, as later requests will |
 * | out of it | before a request is queued | what the store has of its prompt and the cache has not |
 *
 * Pages change hands only while the engine is at rest: between two steps, when everything that is
 * scheduled is submitted. Then what the cache has of a prefix is what its pages will hold, and no
 * launch still to be submitted writes to a page that is free. Reading and writing take as long as
 * they take; requests are computed meanwhile.
 *
 * Nothing here ends a request: what cannot be stored or restored is computed.
 *
 * @module
 */
import type { PageCodec } from "../../cache/page_codec.ts";
import type { Contents, PrefixBlock } from "../../cache/prefix_block.ts";
import type { PrefixStore } from "../../cache/prefix_store.ts";
import { DeviceError, TransferError } from "../../errors.ts";
import type { PrefixStoreStatus } from "../../prefix_cache.ts";
import type { ScheduledStep } from "../schedule/scheduled_step.ts";
import type { Sequence } from "../schedule/sequence.ts";
import type { PageHolder, SequencePages } from "../schedule/sequence_pages.ts";

export interface PrefixTransfersOptions {
  readonly store: PrefixStore;
  readonly codec: Pick<PageCodec, "readPages" | "writePages">;
  readonly pages: SequencePages;
  /** Tokens of the shortest prefix that is stored though no request asks for it. */
  readonly minTokens: number;
  /** Seconds that a request waits for what is stored; default what computing it would take. */
  readonly maxWait?: number | undefined;
  /** Whether no step is being scheduled or computed. */
  readonly isIdle: () => boolean;
  /** Called when the engine's loop may have something to do. */
  readonly wake: () => void;
  /** Told what went wrong, other than with the device. */
  readonly onProblem?: ((problem: string) => void) | undefined;
}

/** Seconds that a prompt token is taken to cost until that is measured. */
const UNMEASURED = 0.02;
/** Weight of the newest prompt in the average. */
const NEWEST = 0.25;
/** Shorter prompts tell little: much of their time is that of a step, whatever is in it. */
const WORTH_MEASURING = 32;
/** Share of the cache that is left to running requests. */
const SPARED = 1 / 8;

/** A prefix by the ids that the cache has for it, and by what it is to the store. */
interface Prefix extends Pick<Sequence, "tokens" | "partition"> {
  readonly lasting: readonly number[];
  readonly contents: Contents | undefined;
}

export class PrefixTransfers {
  readonly #options: PrefixTransfersOptions;
  /** What waits for the engine to be at rest. */
  #atRest: (() => void)[] = [];
  /** Ends with the last prefix that is being restored, or stored. */
  #restores: Promise<void> = Promise.resolve();
  #saves: Promise<void> = Promise.resolve();
  #secondsPerToken = UNMEASURED;
  #restoredTokens = 0;
  #storedTokens = 0;
  #isClosed = false;

  constructor(options: PrefixTransfersOptions) {
    this.#options = options;
  }

  get status(): PrefixStoreStatus {
    return {
      bytes: this.#options.store.byteLength,
      storedTokens: this.#storedTokens,
      restoredTokens: this.#restoredTokens,
    };
  }

  /** Says that everything scheduled is submitted. */
  rest(): void {
    if (this.#options.pages.isMoving && !this.#isClosed) return;
    const work = this.#atRest;
    this.#atRest = [];
    for (const one of work) one();
  }

  /** Takes note of the prompts that a step has finished. */
  committed({ batch, progress }: ScheduledStep): void {
    batch.sequences.forEach(({ phase }, i) => {
      const { sequence, computed } = progress[i]!;
      if (phase === "prefill" && computed >= sequence.promptLength) this.#finished(sequence);
    });
  }

  #finished(sequence: Sequence): void {
    const { cachedTokens = 0, promptLength, storedLength } = sequence;
    if (sequence.retractions === 0) this.#measure(promptLength - cachedTokens, sequence);
    const isShared = cachedTokens >= this.#options.minTokens && sequence.partition === undefined;
    const length = Math.max(storedLength, isShared ? cachedTokens : 0);
    const prefix = length > 0 ? prefixOf(sequence, length) : undefined;
    if (prefix !== undefined) this.#save(prefix);
  }

  #measure(tokens: number, { secondsRunning }: Sequence): void {
    if (tokens < WORTH_MEASURING) return;
    const now = secondsRunning / tokens;
    const known = this.#secondsPerToken;
    this.#secondsPerToken = known === UNMEASURED ? now : known + NEWEST * (now - known);
  }

  /**
   * Brings what is stored of a prompt into the cache, as far as that is worth the wait.
   *
   * @param isWanted Whether the request is still there.
   */
  async restore(sequence: Sequence, isWanted: () => boolean): Promise<void> {
    const { store, pages, maxWait } = this.#options;
    const prefix = prefixOf(sequence, sequence.tokens.length);
    if (prefix === undefined || !pages.shares) return;
    const place = { ...prefix, limit: pages.limit(sequence) };
    const blocks = await store.find(prefix.lasting, place);
    const missing = (blocks.at(-1)?.end ?? 0) - pages.cachedPrefix(sequence);
    if (missing < store.blockTokens) return;
    let isLate = false;
    const restored = this.#restores.then(() =>
      this.#restore(prefixOf(sequence, blocks.at(-1)!.end)!, blocks, () => {
        return !isLate && !this.#isClosed && isWanted();
      }),
    );
    this.#restores = restored.catch((error) => this.#report(error));
    await within(this.#restores, 1000 * (maxWait ?? missing * this.#secondsPerToken));
    isLate = true;
  }

  async #restore(
    prefix: Prefix,
    blocks: readonly PrefixBlock[],
    goesOn: () => boolean,
  ): Promise<void> {
    if (!goesOn()) return;
    const { pageSize } = this.#options.pages.pool;
    await this.#holding(
      () => this.#makeRoom(prefix),
      async (borrower) => {
        const room = borrower.pageTable.length * pageSize;
        const wanted = blocks.filter(({ end }) => end > borrower.computed && end <= room);
        await this.#restoreInto(borrower, wanted, goesOn);
        const there = blocks.filter(({ end }) => end <= borrower.computed);
        await this.#options.store.markUsed(there);
      },
    );
  }

  /** Fills the pages of a holder with these blocks, as far as they are there. */
  async #restoreInto(
    borrower: PageHolder,
    wanted: readonly PrefixBlock[],
    goesOn: () => boolean,
  ): Promise<void> {
    const { store, codec, pages } = this.#options;
    const { pageSize } = pages.pool;
    // The next block is read while one is written.
    let reading = wanted[0] && store.read(wanted[0]);
    for (const [i, block] of wanted.entries()) {
      const bytes = await reading;
      if (bytes === undefined || !goesOn() || !pages.isBorrowing(borrower)) break;
      const next = wanted[i + 1];
      reading = next && store.read(next);
      const first = borrower.computed / pageSize;
      const skip = first - (block.end - store.blockTokens) / pageSize;
      const target = borrower.pageTable.slice(first, block.end / pageSize);
      if (!(await this.#write(block, () => codec.writePages(bytes, target, { skip })))) break;
      if (!pages.isBorrowing(borrower)) break;
      this.#restoredTokens += block.end - borrower.computed;
      pages.fill(borrower, block.end);
    }
  }

  /** What the cache has of a prefix, and pages behind that, as many as can be spared. */
  #makeRoom(prefix: Prefix): PageHolder {
    const { pages, store, isIdle } = this.#options;
    const { pool } = pages;
    const borrower = pages.borrow(prefix.tokens, prefix.partition);
    const spared = isIdle() ? 0 : Math.ceil(SPARED * pool.pageCount);
    const room = borrower.pageTable.length + Math.max(pages.available - spared, 0);
    const end = Math.min(prefix.tokens.length, room * pool.pageSize);
    try {
      pages.grow(borrower, end - (end % store.blockTokens));
      return borrower;
    } catch (error) {
      pages.giveBack(borrower);
      throw error;
    }
  }

  /** @returns Whether a block's pages are in the cache now; a damaged one is forgotten. */
  async #write(block: PrefixBlock, write: () => Promise<void>): Promise<boolean> {
    try {
      await write();
      return true;
    } catch (error) {
      if (!(error instanceof TransferError)) throw error;
      await this.#options.store.discard(block, error);
      return false;
    }
  }

  #save(prefix: Prefix): void {
    this.#saves = this.#saves.then(() => this.#store(prefix)).catch((error) => this.#report(error));
  }

  async #store(prefix: Prefix): Promise<void> {
    const { store } = this.#options;
    const blocks = await store.blocks(prefix.lasting, prefix);
    const isMissing = (block: PrefixBlock) => !store.has(block);
    if (blocks.some(isMissing)) await store.refresh(); // other processes may have stored them
    for (const block of blocks.filter(isMissing)) {
      const bytes = store.mayWrite ? await this.#read(prefix, block) : undefined;
      if (bytes === undefined || !(await store.write(block, bytes, blocks))) break;
      this.#storedTokens += store.blockTokens;
    }
    await store.markUsed(blocks);
  }

  /** @returns A block's pages; `undefined` when the cache has them no more. */
  async #read(
    { tokens, partition }: Prefix,
    { end }: PrefixBlock,
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const { store, codec, pages } = this.#options;
    return this.#holding(
      () => pages.borrow(tokens.slice(0, end), partition),
      async (borrower) => {
        if (borrower.computed < end) return undefined;
        const first = (end - store.blockTokens) / pages.pool.pageSize;
        const bytes = await codec.readPages(borrower.pageTable.slice(first));
        return pages.isBorrowing(borrower) ? bytes : undefined;
      },
    );
  }

  /**
   * Takes pages while the engine is at rest, and gives them back behind what is done with them, whatever
   * fails.
   *
   * @returns What that is; `undefined` when the engine never is at rest any more.
   */
  async #holding<T>(
    take: () => PageHolder,
    use: (borrower: PageHolder) => Promise<T>,
  ): Promise<T | undefined> {
    const { pages, wake } = this.#options;
    let held: PageHolder | undefined;
    try {
      await this.#whenAtRest(() => {
        held = take();
      });
      return held && (await use(held));
    } finally {
      if (held !== undefined) {
        pages.giveBack(held);
        wake();
      }
    }
  }

  /** Does something while the engine is at rest; `undefined` when it never is any more. */
  #whenAtRest<T>(work: () => T): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.#atRest.push(() => {
        try {
          resolve(this.#options.pages.isMoving ? undefined : work());
        } catch (error) {
          reject(error);
        }
      });
      if (this.#options.isIdle()) this.rest();
      else this.#options.wake();
    });
  }

  /** Resolves when everything that is to be stored so far is. */
  async settled(): Promise<void> {
    await this.#saves;
  }

  /** Deletes what is stored. */
  async clear(): Promise<void> {
    await this.settled();
    await this.#options.store.clear();
  }

  /** Ends what is being restored, once the engine is idle, and waits for what is to be stored. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.rest();
    await Promise.all([this.#restores, this.#saves]);
  }

  /** A device that is lost is told about elsewhere. */
  #report(error: unknown): void {
    if (error instanceof DeviceError) return;
    this.#options.onProblem?.(error instanceof Error ? error.message : String(error));
  }
}

/** So many tokens of a sequence's prompt; undefined where other processes have no name for what stands there. */
function prefixOf(sequence: Sequence, length: number): Prefix | undefined {
  const { partition, embeddings } = sequence;
  if (embeddings !== undefined && embeddings.lasting === undefined) return undefined;
  const tokens = sequence.tokens.slice(0, length);
  const { tokens: lasting, contents } = embeddings?.lasting ?? { tokens, contents: undefined };
  return { tokens, partition, lasting: lasting.slice(0, length), contents };
}

/** Waits for a promise, but not for longer than that. */
async function within(done: Promise<void>, milliseconds: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const timeout = new Promise<void>((resolve) => {
    if (Number.isFinite(milliseconds)) timer = setTimeout(resolve, milliseconds);
  });
  await Promise.race([done, timeout]);
  clearTimeout(timer);
}
