/**
 * Which pages lack entries of the draft module: those of rows that were computed while it was left
 * out. A page that requests share is a hit all the same; what it lacks only makes drafts worse.
 *
 * It is an estimate. Pages that are copied, or come back from host memory or from a store of prefixes,
 * count as what their numbers were used for last, and a page lacks all where it lacks one.
 *
 * @module
 */
import type { PageTable } from "../../layers/batch.ts";

export class MissingEntries {
  readonly #pageSize: number;
  /** By page number: 1 where one is missing. */
  readonly #pages: Uint8Array;

  constructor(pageCount: number, pageSize: number) {
    this.#pageSize = pageSize;
    this.#pages = new Uint8Array(pageCount);
  }

  /** Takes note of rows at `[start, end)`, and whether they enter the module's cache. */
  computed(
    pages: PageTable,
    {
      start,
      end,
      enters,
    }: { readonly start: number; readonly end: number; readonly enters: boolean },
  ): void {
    const size = this.#pageSize;
    // A page that begins before them stays as it is, unless one more of it is missing.
    const first = enters ? Math.ceil(start / size) : Math.floor(start / size);
    const last = Math.min(Math.ceil(end / size), pages.length);
    for (let i = first; i < last; i++) this.#pages[pages[i]!] = enters ? 0 : 1;
  }

  /** How many of a sequence's first `tokens` lack an entry. */
  of(pages: PageTable, tokens: number): number {
    const size = this.#pageSize;
    let missing = 0;
    for (let i = 0; i * size < tokens; i++) {
      if (this.#pages[pages[i]!] === 1) missing += Math.min(size, tokens - i * size);
    }
    return missing;
  }
}
