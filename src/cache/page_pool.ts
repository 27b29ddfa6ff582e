/**
 * Hands out the pages of the KV cache by number.
 *
 * A page holds `pageSize` tokens of every layer and belongs to one sequence at a time.
 *
 * @module
 */
import { CapacityError, KernelError } from "../errors.ts";

/** Tokens of a page at most. */
export const MAX_PAGE_SIZE = 256;

export class PagePool {
  readonly pageCount: number;
  /** Tokens a page holds. */
  readonly pageSize: number;
  readonly #free: number[];
  readonly #taken: Uint8Array;

  constructor(pageCount: number, pageSize: number) {
    this.pageCount = pageCount;
    this.pageSize = pageSize;
    this.#free = Array.from({ length: pageCount }, (_, i) => pageCount - 1 - i);
    this.#taken = new Uint8Array(pageCount);
  }

  get freeCount(): number {
    return this.#free.length;
  }

  /** Pages that `tokens` tokens need. */
  pagesFor(tokens: number): number {
    return Math.ceil(tokens / this.pageSize);
  }

  /**
   * Takes `count` pages and appends their numbers to a list. All or nothing: what is taken is in the
   * list.
   *
   * @param into Its owner's pages. Default: a new list.
   * @returns `into`, with page numbers in `[0, pageCount)`; the pages' contents are undefined.
   * @throws {CapacityError} when fewer than `count` pages are free.
   */
  allocate(count: number, into: number[] = []): number[] {
    if (count > this.freeCount) {
      const state = `${count} are wanted and ${this.freeCount} of ${this.pageCount} are free; a sequence that ends frees its own`;
      throw new CapacityError("pages of the KV cache", this.pageCount, state);
    }
    const first = this.#free.length - count;
    for (let i = first; i < this.#free.length; i++) {
      const page = this.#free[i]!;
      this.#taken[page] = 1;
      into.push(page);
    }
    this.#free.length = first;
    return into;
  }

  /**
   * Gives pages back.
   *
   * @throws {KernelError} when one is free already: another sequence may own it by now.
   */
  release(pages: readonly number[]): void {
    for (const page of pages) {
      if (this.#taken[page] !== 1)
        throw new KernelError("page pool", `page ${page} is freed twice`);
      this.#taken[page] = 0;
      this.#free.push(page);
    }
  }
}
