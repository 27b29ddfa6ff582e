import { describe, expect, test } from "vitest";
import { PagePool } from "../../../src/cache/page_pool.ts";
import { RadixCache } from "../../../src/cache/radix_cache.ts";
import { SequencePages } from "../../../src/engine/schedule/sequence_pages.ts";
import { sequence, slotMemory } from "../../support/engines/sequences.ts";

const PAGE_SIZE = 2;

/** A sequence with a prompt of 8 tokens and 4 generated ones, of which 11 are computed. */
function computed(pages: SequencePages) {
  const { sequence: made } = sequence(8, 20);
  for (const token of [9, 10, 11, 12]) made.accept([token]);
  pages.attach(made);
  pages.grow(made, 11);
  made.computed = 11;
  pages.share(made);
  return made;
}

function setUp(pageCount = 20) {
  const memory = slotMemory(100, new Map(), PAGE_SIZE);
  const pool = new PagePool(pageCount, PAGE_SIZE);
  const radix = new RadixCache({ pageSize: PAGE_SIZE });
  const pages = new SequencePages(pool, { radix, retractionMemory: memory });
  return { memory, pool, pages, made: computed(pages) };
}

describe("SequencePages with host memory", () => {
  test("retract() keeps what others do not hold, attach() brings back what the cache has lost", () => {
    const { pages, made } = setUp();
    const { sequence: other } = sequence(8, 20);
    pages.attach(other); // 6 of its 8 tokens are in shared pages
    const table = [...made.pageTable];
    pages.retract(made);
    expect(pages.takeTransfers().saves).toEqual([
      { sequence: made, saved: made.saved, pages: table.slice(3) },
    ]);
    expect(made.saved).toMatchObject({ start: 6, end: 11 });
    pages.flush();
    expect(pages.attach(made)).toBe(true);
    expect(made.computed).toBe(11);
    const [restore] = pages.takeTransfers().restores;
    expect(restore).toMatchObject({ sequence: made, skip: 0, pages: made.pageTable.slice(3) });
    expect(made.pageTable.slice(0, 3)).toEqual(other.pageTable.slice(0, 3));
  });

  test("attach() takes what the cache still has from there", () => {
    const { pages, made } = setUp();
    pages.retract(made);
    pages.takeTransfers();
    expect(pages.attach(made)).toBe(true);
    // All whole pages; the last token's is not one.
    expect(made.sharedTokens).toBe(10);
    expect(pages.takeTransfers().restores).toMatchObject([
      { skip: 5, pages: made.pageTable.slice(5) },
    ]);
  });

  test("what is kept is of no use once the prefix before it is lost", () => {
    const { pages, made, memory } = setUp();
    const { sequence: other } = sequence(8, 20);
    pages.attach(other);
    pages.retract(made);
    pages.takeTransfers();
    pages.release(other);
    pages.flush();
    expect(pages.attach(made)).toBe(true);
    expect([made.computed, made.saved, memory.usedBytes]).toEqual([0, undefined, 0]);
    expect(pages.takeTransfers().restores).toEqual([]);
  });

  test("pages that have not come back are shared with no sequence, and stay where they are", () => {
    const { pages, made, memory, pool } = setUp();
    pages.retract(made);
    pages.takeTransfers();
    pages.flush();
    const { usedBytes } = memory;
    pages.attach(made);
    pages.retract(made);
    expect(pages.cachedPages).toBe(0);
    expect(pool.freeCount).toBe(pool.pageCount);
    expect(pages.takeTransfers()).toEqual({ saves: [], copies: [], restores: [] });
    expect(made.saved).toMatchObject({ start: 0, end: 11 });
    expect(memory.usedBytes).toBe(usedBytes);
  });

  test("attach() without room changes nothing", () => {
    const { pages, made, memory } = setUp(6);
    pages.retract(made);
    pages.takeTransfers();
    const { sequence: other } = sequence(4, 20, {}, { partition: "other" });
    pages.grow(other, 4);
    const { usedBytes } = memory;
    expect(pages.attach(made)).toBe(false);
    expect([made.pageTable, made.prefix, made.computed]).toEqual([[], undefined, 0]);
    expect(memory.usedBytes).toBe(usedBytes);
    expect(pages.takeTransfers().restores).toEqual([]);
    pages.release(other);
    expect(pages.attach(made)).toBe(true);
  });
});

describe("tables of more pages than a call takes arguments", () => {
  const COUNT = 150_000;

  test("grow() takes all of them, and release() gives all back", () => {
    const pages = new SequencePages(new PagePool(COUNT + 1, 1));
    const { sequence: one } = sequence(1, 1);
    expect(pages.grow(one, COUNT)).toBe(true);
    expect([one.pageTable.length, pages.pool.freeCount]).toEqual([COUNT, 1]);
    pages.release(one);
    expect(pages.pool.freeCount).toBe(COUNT + 1);
  });

  test("of two sequences that computed the same, the second takes the pages of the first", () => {
    const pages = new SequencePages(new PagePool(2 * COUNT, 1), {
      radix: new RadixCache({ pageSize: 1 }),
    });
    const prompt = Array.from({ length: COUNT + 1 }, (_, i) => i % 60);
    const made = [1, 2].map(() => sequence(prompt, 1).sequence);
    for (const one of made) {
      pages.grow(one, COUNT);
      one.computed = COUNT;
    }
    for (const one of made) pages.share(one);
    expect(made[1]!.pageTable.every((page, i) => page === made[0]!.pageTable[i])).toBe(true);
    for (const one of made) pages.release(one);
    pages.flush();
    expect(pages.pool.freeCount).toBe(2 * COUNT);
  });
});
