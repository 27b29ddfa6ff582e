/**
 * Which pages of the cache a sequence's tokens are in: those of the prefix it shares with other
 * sequences, which the radix cache owns and the sequence locks, and behind them its own.
 *
 * Whole pages of a prompt are shared as soon as they are computed, so that requests that run at the
 * same time share it, and those of an answer when it has ended. Two sequences may compute the same
 * page at once; the one that comes second takes the other's and gives its own back, which changes
 * nothing: their bits are the same.
 *
 * Behind the shared pages a sequence that begins gets a copy of the page in which another one has
 * computed more of the same tokens. It is its own from then on: both write their next tokens there.
 *
 * @module
 */
import type { PageCopy } from "../../cache/page_copier.ts";
import type { PagePool } from "../../cache/page_pool.ts";
import type { PrefixLook, RadixCache } from "../../cache/radix_cache.ts";
import type { PageTransfers } from "../step/page_transfers.ts";
import { findPartialPage, type PartialPage } from "./partial_page.ts";
import type { RetractionMemory } from "./retraction_memory.ts";
import type { Sequence } from "./sequence.ts";

export interface SequencePagesOptions {
  /** Without one nothing is shared, and pages are free once a sequence ends. */
  readonly radix?: RadixCache | undefined;
  /**
   * Whether generated tokens are computed in another form than prompts. A sequence then takes only
   * its prompt from other sequences, because what it generates must not depend on who else has it
   * cached.
   */
  readonly promptsDiffer?: boolean;
  /** Keeps the pages of retracted sequences. Without it they are computed again. */
  readonly retractionMemory?: RetractionMemory | undefined;
}

/** An owner of pages: a sequence, or a transfer that moves pages of a prefix. */
export type PageHolder = Pick<
  Sequence,
  "tokens" | "partition" | "pageTable" | "prefix" | "sharedTokens" | "computed"
>;

const NOTHING_SAVED = { saves: [], restores: [] };

export class SequencePages {
  readonly pool: PagePool;
  /** What sequences share; absent where they share nothing. */
  readonly radix: RadixCache | undefined;
  readonly #promptsDiffer: boolean;
  readonly #memory: RetractionMemory | undefined;
  /** Sequences that have pages. */
  readonly #attached = new Set<Sequence>();
  /** A transfer, which has pages and is no sequence. */
  readonly #borrowers = new Set<PageHolder>();
  /** Copies since transfers were taken, each for a sequence that began since. */
  #copies: (PageCopy & { readonly sequence: Sequence })[] = [];

  constructor(pool: PagePool, options: SequencePagesOptions = {}) {
    this.pool = pool;
    this.radix = options.radix;
    this.#promptsDiffer = options.promptsDiffer ?? false;
    this.#memory = options.retractionMemory;
  }

  /** Whether sequences share prefixes at all. */
  get shares(): boolean {
    return this.radix !== undefined;
  }

  /** Pages that can be had: free ones, and those of prefixes that no sequence uses. */
  get available(): number {
    return this.pool.freeCount + (this.radix?.evictablePages ?? 0);
  }

  /** Tokens that a sequence could have pages for. */
  roomFor({ pageTable }: Sequence): number {
    return (pageTable.length + this.available) * this.pool.pageSize;
  }

  /** Pages whose contents no sequence uses, but a later prompt may ask for. */
  get cachedPages(): number {
    return this.radix?.evictablePages ?? 0;
  }

  /** Tokens of a sequence that it would find in the cache. At least its last one is computed. */
  cachedPrefix(sequence: Sequence): number {
    return this.look(sequence).tokens;
  }

  /** Where in the cache those tokens are. Looking is no use of them. */
  look(sequence: Sequence): PrefixLook {
    const { tokens, partition } = sequence;
    const limit = this.limit(sequence);
    const nothing = { tokens: 0, lastPage: undefined, path: [] };
    return this.radix?.look(tokens, { limit, partition }) ?? nothing;
  }

  /** Tokens of a sequence that it need not compute: those in the cache, and those in a page to copy. */
  reusableTokens(sequence: Sequence): number {
    const { tokens, lastPage } = this.look(sequence);
    return this.#partialPage(sequence, tokens, lastPage)?.end ?? tokens;
  }

  /** Tokens that a sequence may take from other sequences. */
  limit({ cacheableTokens, promptLength }: Sequence): number {
    return this.#promptsDiffer ? Math.min(cacheableTokens, promptLength) : cacheableTokens;
  }

  /** @param start Where its cached prefix ends, on the page `lastPage`. */
  #partialPage(
    sequence: Sequence,
    start: number,
    lastPage: number | undefined,
  ): PartialPage | undefined {
    if (this.radix === undefined) return undefined;
    const { pageSize } = this.pool;
    const most = Math.min(this.limit(sequence), start + pageSize);
    const shareable = (other: Sequence) => {
      if (other.partition !== sequence.partition || this.#isMoving(other)) return 0;
      const { computed, promptLength, tokens } = other;
      return Math.min(computed, this.#promptsDiffer ? promptLength : tokens.length);
    };
    const search = { start, most, pageSize, lastPage, shareable };
    return findPartialPage(sequence, this.#attached, search);
  }

  /** Whether not all that a sequence has computed is in its pages yet. */
  #isMoving(sequence: Sequence): boolean {
    return sequence.saved !== undefined || this.#copies.some((copy) => copy.sequence === sequence);
  }

  /**
   * Gives a sequence without pages the prefix that the cache has of it, and behind that what was
   * kept of it when it was retracted, or else a copy of what another one has computed there.
   *
   * @returns Whether there was room for what was kept; without it, and after an error, nothing has
   * changed.
   */
  attach(sequence: Sequence): boolean {
    this.#match(sequence, this.limit(sequence));
    return this.#orRelease(sequence, () => {
      if (!this.#restore(sequence)) return false;
      if (sequence.saved === undefined) this.#copyPartialPage(sequence);
      this.#attached.add(sequence);
      return true;
    });
  }

  /**
   * Gives a sequence without pages the prefix that the cache has of it, and room behind that for its
   * first `tokens` tokens.
   *
   * @returns Whether there was room; without it, and after an error, nothing has changed.
   */
  attachShared(sequence: Sequence, tokens: number): boolean {
    this.#match(sequence, Math.min(this.limit(sequence), tokens));
    return this.#orRelease(sequence, () => this.grow(sequence, tokens));
  }

  #orRelease(sequence: Sequence, takePages: () => boolean): boolean {
    let isTaken = false;
    try {
      isTaken = takePages();
    } finally {
      if (!isTaken) this.release(sequence);
    }
    return isTaken;
  }

  #match(sequence: PageHolder, limit: number): void {
    const { tokens, partition } = sequence;
    const match = this.radix?.match(tokens, { limit, partition });
    if (match === undefined) return;
    this.radix!.lock(match.node);
    sequence.prefix = match.node;
    sequence.sharedTokens = match.tokens;
    sequence.computed = match.tokens;
    sequence.pageTable = [...match.pages];
  }

  #copyPartialPage(sequence: Sequence): void {
    const { computed, pageTable } = sequence;
    const partial = this.#partialPage(sequence, computed, pageTable.at(-1));
    if (partial === undefined || !this.grow(sequence, partial.end)) return;
    this.#copies.push({ sequence, from: partial.page, to: pageTable.at(-1)! });
    sequence.computed = partial.end;
  }

  #restore(sequence: Sequence): boolean {
    const { saved, computed, pageTable } = sequence;
    if (saved === undefined) return true;
    // Of no use: the cache has all of it, or has lost what came before it.
    if (computed >= saved.end || computed < saved.start) {
      this.#memory!.drop(sequence);
      return true;
    }
    const first = pageTable.length;
    if (!this.grow(sequence, saved.end)) return false;
    const skip = first - saved.start / this.pool.pageSize;
    this.#memory!.restore(sequence, pageTable.slice(first), skip);
    sequence.computed = saved.end;
    return true;
  }

  /** Takes all pages from a sequence that goes on later; they are kept for it if there is room. */
  retract(sequence: Sequence): void {
    this.#forgetCopy(sequence);
    const { saved, computed, prefix } = sequence;
    const pages = [...sequence.pageTable];
    this.release(sequence);
    if (this.#memory === undefined) return;
    if (saved !== undefined) {
      this.#memory.keep(sequence); // they have not come back yet
      return;
    }
    // What other sequences hold will most likely still be there.
    const start = prefix === undefined ? 0 : this.radix!.lockedTokens(prefix);
    const own = pages.slice(start / this.pool.pageSize, this.pool.pagesFor(computed));
    this.#memory.save(sequence, { start, end: computed, pages: own });
  }

  /** Forgets what is kept for a sequence. */
  drop(sequence: Sequence): void {
    this.#memory?.drop(sequence);
  }

  /** Pages that have to move before the next step, given out once. */
  takeTransfers(): PageTransfers {
    const copies = this.#copies.map(({ from, to }) => ({ from, to }));
    this.#copies = [];
    return { ...(this.#memory?.take() ?? NOTHING_SAVED), copies };
  }

  /**
   * Makes room for a sequence's first `tokens` tokens.
   *
   * @returns Whether there was room; without it nothing has changed.
   */
  grow({ pageTable }: PageHolder, tokens: number): boolean {
    const missing = this.pool.pagesFor(tokens) - pageTable.length;
    if (missing <= 0) return true;
    if (missing > this.available) return false;
    const short = missing - this.pool.freeCount;
    if (short > 0) this.pool.release(this.radix!.evict(short));
    this.pool.allocate(missing, pageTable);
    return true;
  }

  /** Whether pages wait to be moved, so that some do not hold yet what they are to hold. */
  get isMoving(): boolean {
    return this.#copies.length > 0 || this.#memory?.isMoving === true;
  }

  /** How many have pages and are no sequences. They give them back soon. */
  get borrowerCount(): number {
    return this.#borrowers.size;
  }

  /**
   * Keeps the pages that the cache has of a prefix as they are, for a transfer that is to read
   * them, or to write what follows them. Not while pages wait to be moved, or a schedule to be
   * submitted.
   */
  borrow(tokens: readonly number[], partition: string | undefined): PageHolder {
    const holder: PageHolder = {
      tokens: [...tokens],
      partition,
      pageTable: [],
      prefix: undefined,
      sharedTokens: 0,
      computed: 0,
    };
    this.#borrowers.add(holder);
    this.#match(holder, tokens.length);
    return holder;
  }

  /** Whether a transfer still has what was borrowed: not once the device is lost. */
  isBorrowing(borrower: PageHolder): boolean {
    return this.#borrowers.has(borrower);
  }

  /**
   * Takes note that the pages of a borrower hold its first `computed` tokens: sequences may use
   * them.
   */
  fill(borrower: PageHolder, computed: number): void {
    borrower.computed = computed;
    this.#insert(borrower, computed);
  }

  /** Takes all pages from a borrower; the cache keeps those that hold something. */
  giveBack(borrower: PageHolder): void {
    if (this.#borrowers.delete(borrower)) this.#takePages(borrower);
  }

  /** Frees the cached pages that no sequence uses. */
  flush(): void {
    if (this.radix !== undefined) this.pool.release(this.radix.flush());
  }

  /** Lets other sequences use the whole pages of what a sequence has computed of its prompt. */
  share(sequence: Sequence): void {
    this.#offer(sequence, Math.min(sequence.computed, sequence.promptLength));
  }

  /** Gives the cache what there is memory to remember of: what it does not have is computed again. */
  #offer(sequence: PageHolder, tokenCount: number): void {
    try {
      this.#insert(sequence, tokenCount);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
    }
  }

  /** Takes note that the pages of a sequence hold its first `computed` tokens. */
  arrive(sequence: Sequence, computed: number): void {
    sequence.computed = computed;
    this.#attached.add(sequence);
    this.share(sequence);
  }

  #insert(sequence: PageHolder, tokenCount: number): void {
    const radix = this.radix;
    if (radix === undefined) return;
    const { tokens, pageTable, partition, prefix, sharedTokens } = sequence;
    const { pageSize } = this.pool;
    const whole = Math.floor(tokenCount / pageSize);
    if (whole * pageSize <= sharedTokens) return;
    const key = tokens.slice(0, whole * pageSize);
    const inserted = radix.insert(key, pageTable.slice(0, whole), { partition });
    const { node, present, presentPages: pages } = inserted;
    radix.lock(node);
    if (prefix !== undefined) radix.unlock(prefix);
    // Pages that were there already, but not when this sequence looked.
    const first = sharedTokens / pageSize;
    const count = present / pageSize - first;
    if (count > 0) {
      // Batches of steps in flight read the old one.
      sequence.pageTable = pageTable.slice();
      for (let i = first; i < first + count; i++) sequence.pageTable[i] = pages[i]!;
      this.pool.release(pageTable.slice(first, first + count));
    }
    sequence.prefix = node;
    sequence.sharedTokens = whole * pageSize;
  }

  /** The page that a sequence was to get a copy of is not copied any more. */
  #forgetCopy(sequence: Sequence): void {
    const others = this.#copies.filter((copy) => copy.sequence !== sequence);
    if (others.length === this.#copies.length) return;
    this.#copies = others;
    sequence.computed = sequence.sharedTokens;
  }

  /** Takes all pages from a sequence; what it has computed stays in the cache while there is room. */
  release(sequence: Sequence): void {
    this.#attached.delete(sequence);
    this.#forgetCopy(sequence);
    // What is still to come back is in no page yet.
    if (sequence.saved !== undefined) sequence.computed = sequence.sharedTokens;
    // Steps in flight may have computed its last token, which without them no step computes.
    this.#offer(sequence, Math.min(sequence.computed, sequence.tokens.length - 1));
    this.#takePages(sequence);
  }

  /**
   * Takes note that no page holds anything any more: takes all pages from the sequences, from
   * transfers that have borrowed some, and from the cache. What is in host memory stays there.
   */
  lose(sequences: readonly Sequence[]): void {
    this.#copies = [];
    this.#attached.clear();
    for (const sequence of sequences) {
      this.#memory?.losePages(sequence);
      this.#takePages(sequence);
    }
    for (const borrower of this.#borrowers) this.giveBack(borrower);
    this.flush();
  }

  #takePages(holder: PageHolder): void {
    const { pageTable, prefix, sharedTokens } = holder;
    this.pool.release(pageTable.slice(this.pool.pagesFor(sharedTokens)));
    if (prefix !== undefined) this.radix!.unlock(prefix);
    holder.prefix = undefined;
    holder.sharedTokens = 0;
    holder.computed = 0;
    holder.pageTable = [];
  }
}
