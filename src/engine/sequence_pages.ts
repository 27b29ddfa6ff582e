/**
 * Which pages of the cache a sequence's tokens are in: those of the prefix it shares with others,
 * which the radix cache owns and the sequence locks, and behind them its own.
 *
 * Whole pages are shared as soon as they are computed, so that requests that run at the same time
 * share a prompt. Two sequences may compute the same page at once; the one that comes second takes
 * the other's and gives its own back, which changes nothing: their bits are the same.
 *
 * @module
 */
import type { PagePool } from "../cache/page_pool.ts";
import type { RadixCache } from "../cache/radix_cache.ts";
import type { Sequence } from "./sequence.ts";

export interface SequencePagesOptions {
  /** Without one nothing is shared, and pages are free once a sequence ends. */
  readonly radix?: RadixCache | undefined;
  /**
   * Whether generated tokens are computed in another form than prompts. A sequence then takes only
   * its prompt from others, because what it generates must not depend on who else has it cached.
   */
  readonly promptsDiffer?: boolean;
}

export class SequencePages {
  readonly pool: PagePool;
  readonly #radix: RadixCache | undefined;
  readonly #promptsDiffer: boolean;

  constructor(pool: PagePool, { radix, promptsDiffer = false }: SequencePagesOptions = {}) {
    this.pool = pool;
    this.#radix = radix;
    this.#promptsDiffer = promptsDiffer;
  }

  /** Whether sequences share prefixes at all. */
  get shares(): boolean {
    return this.#radix !== undefined;
  }

  /** Pages that can be had: free ones, and those of prefixes that nobody uses. */
  get available(): number {
    return this.pool.freeCount + (this.#radix?.evictablePages ?? 0);
  }

  /** Tokens that a sequence could have pages for. */
  roomFor({ pageTable }: Sequence): number {
    return (pageTable.length + this.available) * this.pool.pageSize;
  }

  /** Pages whose contents nobody uses, but somebody may ask for. */
  get cachedPages(): number {
    return this.#radix?.evictablePages ?? 0;
  }

  /** Tokens of a sequence that it would find in the cache. At least its last one is computed. */
  cachedPrefix(sequence: Sequence): number {
    const { tokens, partition } = sequence;
    return this.#radix?.match(tokens, { limit: this.#limit(sequence), partition }).tokens ?? 0;
  }

  /** Tokens that a sequence may take from others. */
  #limit({ cacheableTokens, promptLength }: Sequence): number {
    return this.#promptsDiffer ? Math.min(cacheableTokens, promptLength) : cacheableTokens;
  }

  /** Gives a sequence without pages the prefix that the cache has of it. */
  attach(sequence: Sequence): void {
    const { tokens, partition } = sequence;
    const match = this.#radix?.match(tokens, { limit: this.#limit(sequence), partition });
    if (match === undefined) return;
    this.#radix!.lock(match.node);
    sequence.prefix = match.node;
    sequence.sharedTokens = match.tokens;
    sequence.computed = match.tokens;
    sequence.pageTable = [...match.pages];
  }

  /**
   * Makes room for a sequence's first `tokens` tokens.
   *
   * @returns Whether there was room; without it nothing has changed.
   */
  grow({ pageTable }: Sequence, tokens: number): boolean {
    const missing = this.pool.pagesFor(tokens) - pageTable.length;
    if (missing <= 0) return true;
    if (missing > this.available) return false;
    const short = missing - this.pool.freeCount;
    if (short > 0) this.pool.release(this.#radix!.evict(short));
    pageTable.push(...this.pool.allocate(missing));
    return true;
  }

  /** Frees the cached pages that nobody uses. */
  flush(): void {
    if (this.#radix !== undefined) this.pool.release(this.#radix.flush());
  }

  /** Lets others use the whole pages of what a sequence has computed. */
  share(sequence: Sequence): void {
    const { computed, promptLength } = sequence;
    this.#insert(sequence, this.#promptsDiffer ? Math.min(computed, promptLength) : computed);
  }

  #insert(sequence: Sequence, tokenCount: number): void {
    const radix = this.#radix;
    if (radix === undefined) return;
    const { tokens, pageTable, partition, prefix, sharedTokens } = sequence;
    const { pageSize } = this.pool;
    const whole = Math.floor(tokenCount / pageSize);
    if (whole * pageSize <= sharedTokens) return;
    const key = tokens.slice(0, whole * pageSize);
    const { node, present } = radix.insert(key, pageTable.slice(0, whole), { partition });
    radix.lock(node);
    if (prefix !== undefined) radix.unlock(prefix);
    // Pages that were there already, but not when this sequence looked.
    const first = sharedTokens / pageSize;
    const count = present / pageSize - first;
    if (count > 0) {
      const { pages } = radix.match(key, { partition });
      this.pool.release(pageTable.splice(first, count, ...pages.slice(first, first + count)));
    }
    sequence.prefix = node;
    sequence.sharedTokens = whole * pageSize;
  }

  /** Takes all pages from a sequence; what it has computed stays in the cache while there is room. */
  release(sequence: Sequence): void {
    this.#insert(sequence, sequence.computed);
    const { pageTable, prefix, sharedTokens } = sequence;
    this.pool.release(pageTable.slice(this.pool.pagesFor(sharedTokens)));
    if (prefix !== undefined) this.#radix!.unlock(prefix);
    sequence.prefix = undefined;
    sequence.sharedTokens = 0;
    sequence.computed = 0;
    sequence.pageTable = [];
  }
}
