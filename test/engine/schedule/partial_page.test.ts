import { expect, test } from "vitest";
import { PagePool } from "../../../src/cache/page_pool.ts";
import { RadixCache } from "../../../src/cache/radix_cache.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import {
  SequencePages,
  type SequencePagesOptions,
} from "../../../src/engine/schedule/sequence_pages.ts";
import { sequence, slotMemory } from "../../support/engines/sequences.ts";

const PAGE_SIZE = 4;

function setUp({
  pageCount = 20,
  ...options
}: Partial<SequencePagesOptions> & { pageCount?: number } = {}) {
  const pool = new PagePool(pageCount, PAGE_SIZE);
  const radix = new RadixCache({ pageSize: PAGE_SIZE });
  return { pool, pages: new SequencePages(pool, { radix, ...options }) };
}

/** Gives a sequence its pages and computes its first tokens, as a step would. */
function compute(pages: SequencePages, one: Sequence, tokens: number): Sequence {
  expect(pages.attach(one)).toBe(true);
  pages.takeTransfers();
  expect(pages.grow(one, tokens)).toBe(true);
  one.computed = tokens;
  pages.share(one);
  return one;
}

const prompt = (length: number, first = 2, partition?: string) =>
  sequence(length, 20, {}, { first, partition }).sequence;

test("attach() copies the page in which another one has computed more of the same", () => {
  const { pages, pool } = setUp();
  const source = compute(pages, prompt(11), 11);
  const other = prompt(11);
  expect(pages.cachedPrefix(other)).toBe(8);
  expect(pages.reusableTokens(other)).toBe(10);
  pages.attach(other);
  expect(other.pageTable.slice(0, 2)).toEqual(source.pageTable.slice(0, 2));
  const [from, to] = [source.pageTable[2]!, other.pageTable[2]!];
  expect(from).not.toBe(to);
  expect(other.computed).toBe(10);
  expect(pages.takeTransfers().copies).toEqual([{ from, to }]);
  expect(pages.takeTransfers().copies).toEqual([]);
  pages.release(source);
  pages.release(other);
  expect(pages.available).toBe(pool.pageCount);
});

test("attach() takes of a whole page what it may: the last token is computed", () => {
  const { pages } = setUp();
  const source = compute(pages, prompt(8), 8);
  const other = prompt(8);
  pages.attach(other);
  expect(other.computed).toBe(7);
  expect(pages.takeTransfers().copies).toEqual([
    { from: source.pageTable[1], to: other.pageTable[1] },
  ]);
});

test("attach() chooses the page with the longest common part, and no other prefix's", () => {
  const { pages } = setUp();
  // Tokens 2 to 11, of which 6, 7 and 9 are computed.
  const [, longest] = [6, 7].map((computed) => compute(pages, prompt(10), computed));
  compute(pages, prompt(10, 2, "another partition"), 9);
  const shifted = compute(pages, prompt(10, 6), 6); // its second page holds other tokens
  const twin = prompt(10);
  pages.attach(twin);
  expect(twin.computed).toBe(7);
  expect(pages.takeTransfers().copies).toEqual([
    { from: longest!.pageTable[1], to: twin.pageTable[1] },
  ]);
  // The tokens of the second page alone are the first page of `shifted`.
  expect(pages.reusableTokens(prompt(3, 6))).toBe(2);
  expect(shifted.computed).toBe(6);
});

test("a sequence whose own page is still to be copied is no sequence's source", () => {
  const { pages } = setUp();
  const source = compute(pages, prompt(7), 7);
  const [one, other] = [prompt(7), prompt(7)];
  pages.attach(one);
  pages.attach(other);
  const from = source.pageTable[1];
  expect(pages.takeTransfers().copies).toEqual([
    { from, to: one.pageTable[1] },
    { from, to: other.pageTable[1] },
  ]);
  // From here on each is.
  pages.release(source);
  const third = prompt(7);
  pages.attach(third);
  expect(pages.takeTransfers().copies).toEqual([
    { from: one.pageTable[1], to: third.pageTable[1] },
  ]);
});

test("a sequence that leaves before the copy takes it back, and nothing of it is kept", () => {
  const retractionMemory = slotMemory(100, new Map(), PAGE_SIZE);
  const { pages } = setUp({ retractionMemory });
  compute(pages, prompt(11), 11);
  const [retracted, removed] = [prompt(11), prompt(11)];
  pages.attach(retracted);
  pages.attach(removed);
  pages.retract(retracted);
  pages.release(removed);
  expect([retracted.computed, removed.computed]).toEqual([0, 0]);
  expect(pages.takeTransfers()).toEqual({ saves: [], copies: [], restores: [] });
  expect(retracted.saved).toBeUndefined();
});

test("the copy stands though its source has left", () => {
  const { pages } = setUp();
  const source = compute(pages, prompt(7), 7);
  const from = source.pageTable[1];
  const other = prompt(7);
  pages.attach(other);
  pages.release(source);
  expect(pages.takeTransfers().copies).toEqual([{ from, to: other.pageTable[1] }]);
});

test("without room for the copy there is none", () => {
  const { pages, pool } = setUp({ pageCount: 2 });
  compute(pages, prompt(7), 7);
  const other = prompt(7);
  expect(pages.attach(other)).toBe(true);
  expect([other.computed, other.pageTable.length, pool.freeCount]).toEqual([4, 1, 0]);
  expect(pages.takeTransfers().copies).toEqual([]);
});

test("generated tokens are copied only where prompts have the same form", () => {
  for (const promptsDiffer of [false, true]) {
    const { pages } = setUp({ promptsDiffer });
    const source = prompt(5);
    source.accept([7]);
    source.accept([8]);
    compute(pages, source, 7); // 2 3 4 5 | 6 7 8
    const other = prompt(9);
    pages.attach(other);
    expect(other.computed).toBe(promptsDiffer ? 5 : 7);
  }
});

test("what comes back from host memory is not copied, and is no source before it is there", () => {
  const retractionMemory = slotMemory(100, new Map(), PAGE_SIZE);
  const { pages } = setUp({ retractionMemory });
  const source = compute(pages, prompt(11), 11);
  const kept = compute(pages, prompt(11), 11);
  pages.retract(kept);
  pages.takeTransfers();
  expect(kept.saved).toMatchObject({ start: 8, end: 11 });
  pages.attach(kept);
  expect(kept.computed).toBe(11);
  pages.release(source);
  expect(pages.reusableTokens(prompt(11))).toBe(8);
  expect(pages.takeTransfers()).toMatchObject({ copies: [], restores: [{ skip: 0 }] });
});

test("its own generated tokens are taken from another one's prompt only where the form is the same", () => {
  for (const promptsDiffer of [false, true]) {
    const { pages } = setUp({ promptsDiffer });
    const goesOn = prompt(6);
    for (const token of [40, 41, 42, 43]) goesOn.accept([token]);
    const quoting = sequence([...goesOn.tokens, 50], 20).sequence;
    compute(pages, quoting, 11);
    pages.attach(goesOn);
    // Of the first page of its answer two tokens are the prompt's.
    expect(goesOn.computed).toBe(promptsDiffer ? 6 : 9);
  }
});
