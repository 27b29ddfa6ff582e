import { describe, expect, test } from "vitest";
import { RadixCache, type RadixNode } from "../../src/cache/radix_cache.ts";
import { InvalidRequestError, KernelError } from "../../src/errors.ts";

/** The whole numbers in `[start, end)`. */
const range = (start: number, end: number) =>
  Array.from({ length: end - start }, (_, i) => start + i);

describe("match()", () => {
  test("finds nothing in an empty cache", () => {
    const cache = new RadixCache({ pageSize: 1 });
    const { pages, tokens } = cache.match([1, 2, 3]);
    expect({ pages, tokens }).toEqual({ pages: [], tokens: 0 });
  });

  test("finds the longest cached prefix and its pages in order", () => {
    const cache = new RadixCache({ pageSize: 1 });
    cache.insert([1, 2, 3, 4], [7, 5, 6, 4]);
    cache.insert([1, 2, 8, 9], [17, 15, 2, 3]);
    expect(cache.match([1, 2, 3, 4, 5])).toMatchObject({ pages: [7, 5, 6, 4], tokens: 4 });
    expect(cache.match([1, 2, 8, 9])).toMatchObject({ pages: [7, 5, 2, 3], tokens: 4 });
    expect(cache.match([1, 2, 7])).toMatchObject({ pages: [7, 5], tokens: 2 });
    expect(cache.match([2, 3, 4])).toMatchObject({ pages: [], tokens: 0 });
  });

  test("counts whole pages only", () => {
    const cache = new RadixCache({ pageSize: 4 });
    cache.insert(range(0, 12), [3, 1, 2]);
    expect(cache.match(range(0, 3)).tokens).toBe(0);
    expect(cache.match(range(0, 4)).pages).toEqual([3]);
    expect(cache.match(range(0, 11)).pages).toEqual([3, 1]);
    expect(cache.match([...range(0, 7), 99, 8, 9]).pages).toEqual([3]);
    expect(cache.match(range(0, 100)).pages).toEqual([3, 1, 2]);
  });

  test("stops at the limit, rounded down to whole pages", () => {
    const cache = new RadixCache({ pageSize: 4 });
    cache.insert(range(0, 12), [3, 1, 2]);
    const tokensAt = (limit: number) => cache.match(range(0, 12), { limit }).tokens;
    expect([-1, 0, 3, 4, 11, 12, 50].map(tokensAt)).toEqual([0, 0, 0, 4, 8, 12, 12]);
  });

  test("takes any array of numbers", () => {
    const cache = new RadixCache({ pageSize: 2 });
    cache.insert(Uint32Array.of(5, 6, 7, 8), Uint32Array.of(1, 0));
    expect(cache.match(Uint32Array.of(5, 6, 7, 9)).pages).toEqual([1]);
    expect(cache.match(Float64Array.of(5, 6, 7, 8)).pages).toEqual([1, 0]);
  });

  test("splits a node so that its handle covers exactly the match", () => {
    const cache = new RadixCache({ pageSize: 1 });
    cache.insert(range(0, 10), range(0, 10));
    const { node } = cache.match(range(0, 4));
    cache.lock(node);
    expect(cache.evictablePages).toBe(6);
    expect(cache.flush()).toEqual([9, 8, 7, 6, 5, 4]);
    expect(cache.match(range(0, 10)).pages).toEqual([0, 1, 2, 3]);
  });

  test("splits a node whose handle is held: that handle covers what it covered", () => {
    const cache = new RadixCache({ pageSize: 1 });
    const { node } = cache.insert(range(0, 10), range(0, 10));
    cache.lock(node);
    cache.match(range(0, 4));
    cache.insert([0, 1, 2, 77], [0, 1, 2, 20]);
    expect(cache.evictablePages).toBe(1);
    expect(cache.flush()).toEqual([20]);
    cache.unlock(node);
    expect(cache.evictablePages).toBe(10);
  });

  test("tells prefixes apart that differ in the last token of a page", () => {
    const cache = new RadixCache({ pageSize: 64 });
    for (let i = 0; i < 100; i++) cache.insert([...range(0, 63), 1000 + i], [i]);
    for (let i = 0; i < 100; i++) {
      expect(cache.match([...range(0, 63), 1000 + i]).pages).toEqual([i]);
    }
    expect(cache.match([...range(0, 63), 5]).tokens).toBe(0);
  });
});

describe("insert()", () => {
  test("takes only the pages that were missing", () => {
    const cache = new RadixCache({ pageSize: 2 });
    expect(cache.insert([1, 2, 3, 4], [0, 1]).present).toBe(0);
    expect(cache.insert([1, 2, 3, 4, 5, 6], [8, 9, 2]).present).toBe(4);
    expect(cache.insert([1, 2, 3, 5], [0, 3]).present).toBe(2);
    expect(cache.insert([1, 2], [9]).present).toBe(2);
    expect(cache.pageCount).toBe(4);
    expect(cache.match([1, 2, 3, 4, 5, 6]).pages).toEqual([0, 1, 2]);
  });

  test("returns a node that covers all the tokens and no more", () => {
    const cache = new RadixCache({ pageSize: 1 });
    cache.insert(range(0, 10), range(0, 10));
    cache.lock(cache.insert(range(0, 6), range(20, 26)).node);
    expect(cache.evictablePages).toBe(4);
    cache.lock(cache.insert([0, 1, 50], [0, 1, 30]).node);
    expect(cache.evictablePages).toBe(4);
    expect(cache.pageCount).toBe(11);
  });

  test("of nothing changes nothing", () => {
    const cache = new RadixCache({ pageSize: 4 });
    const { node, present } = cache.insert([], [], { partition: "a" });
    expect(present).toBe(0);
    cache.lock(node);
    cache.unlock(node);
    expect(cache.pageCount).toBe(0);
  });

  test.each([
    [[1, 2, 3], [0]],
    [[1, 2], []],
    [
      [1, 2],
      [0, 1],
    ],
  ])("refuses tokens %j with pages %j", (tokens, pages) => {
    const cache = new RadixCache({ pageSize: 2 });
    expect(() => cache.insert(tokens, pages)).toThrow(KernelError);
    expect(cache.pageCount).toBe(0);
  });
});

describe("lock() and unlock()", () => {
  test("keep the whole path, once for each holder", () => {
    const cache = new RadixCache({ pageSize: 1 });
    cache.insert([1, 2], [0, 1]);
    const { node } = cache.insert([1, 2, 3], [0, 1, 2]);
    cache.insert([1, 2, 3, 4], [0, 1, 2, 3]);
    cache.lock(node);
    cache.lock(node);
    expect(cache.evictablePages).toBe(1);
    cache.unlock(node);
    expect(cache.flush()).toEqual([3]);
    cache.unlock(node);
    expect(cache.flush()).toEqual([2, 1, 0]);
  });

  test("unlock() refuses to go below zero", () => {
    const cache = new RadixCache({ pageSize: 1 });
    const { node } = cache.insert([1], [0]);
    expect(() => cache.unlock(node)).toThrow(KernelError);
    cache.lock(node);
    cache.unlock(node);
    expect(() => cache.unlock(node)).toThrow(KernelError);
    expect(() => cache.unlock(cache.match([9]).node)).toThrow(KernelError);
    expect(cache.evictablePages).toBe(1);
  });

  test("lock() refuses a node that was evicted", () => {
    const cache = new RadixCache({ pageSize: 1 });
    const { node } = cache.insert([1, 2], [0, 1]);
    cache.flush();
    expect(() => cache.lock(node)).toThrow(KernelError);
    expect(cache.evictablePages).toBe(0);
  });

  test("take the handle of an empty match", () => {
    const cache = new RadixCache({ pageSize: 1 });
    const { node } = cache.match([1]);
    cache.lock(node);
    cache.insert([1], [0]);
    expect(cache.evictablePages).toBe(1);
    cache.unlock(node);
  });
});

describe("evict()", () => {
  test("frees the least recently used leaf first", () => {
    const cache = new RadixCache({ pageSize: 1 });
    cache.insert([1, 10], [0, 1]);
    cache.insert([2, 20], [2, 3]);
    cache.insert([3, 30], [4, 5]);
    cache.match([1, 10]);
    expect(cache.evict(2)).toEqual([3, 2]);
    expect(cache.evict(2)).toEqual([5, 4]);
    expect(cache.evict(2)).toEqual([1, 0]);
    expect(cache.evict(2)).toEqual([]);
  });

  test("trims the end of a leaf when a part is enough", () => {
    const cache = new RadixCache({ pageSize: 2 });
    cache.insert(range(0, 10), [5, 6, 7, 8, 9]);
    expect(cache.evict(2)).toEqual([9, 8]);
    expect(cache.match(range(0, 10)).pages).toEqual([5, 6, 7]);
    expect([cache.pageCount, cache.evictablePages]).toEqual([3, 3]);
    expect(cache.insert(range(0, 10), [5, 6, 7, 1, 2]).present).toBe(6);
    expect(cache.match(range(0, 10)).pages).toEqual([5, 6, 7, 1, 2]);
  });

  test("goes on with parents that became leaves", () => {
    const cache = new RadixCache({ pageSize: 1 });
    cache.insert([1, 2, 3], [0, 1, 2]);
    cache.insert([1, 2, 4], [0, 1, 3]);
    expect(cache.evict(3)).toEqual([2, 3, 1]);
    expect(cache.evict(9)).toEqual([0]);
  });

  test("takes a parent by its own last use, not its child's", () => {
    const cache = new RadixCache({ pageSize: 1 });
    cache.insert([1, 2], [0, 1]);
    cache.insert([5, 6], [2, 3]);
    cache.match([1]);
    expect(cache.evict(4)).toEqual([1, 3, 2, 0]);
  });

  test("counts the end of a lock as a use", () => {
    const cache = new RadixCache({ pageSize: 1 });
    const { node } = cache.insert([1], [0]);
    cache.lock(node);
    cache.insert([2], [1]);
    cache.unlock(node);
    expect(cache.evict(1)).toEqual([1]);
  });

  test("frees fewer when the others are locked", () => {
    const cache = new RadixCache({ pageSize: 1 });
    cache.lock(cache.insert([1, 2], [0, 1]).node);
    cache.insert([1, 2, 3], [0, 1, 2]);
    expect(cache.evict(5)).toEqual([2]);
    expect([cache.pageCount, cache.evictablePages]).toEqual([2, 0]);
  });

  test.each([0, -1])("of %i pages frees nothing", (count) => {
    const cache = new RadixCache({ pageSize: 1 });
    cache.insert([1], [0]);
    expect(cache.evict(count)).toEqual([]);
  });
});

test("flush() frees everything that is not locked", () => {
  const cache = new RadixCache({ pageSize: 1 });
  const held: RadixNode = cache.insert([1, 2], [0, 1], { partition: "a" }).node;
  cache.insert([1, 2, 3], [0, 1, 2], { partition: "a" });
  cache.insert([1, 2], [3, 4]);
  cache.lock(held);
  expect(cache.flush().sort()).toEqual([2, 3, 4]);
  expect(cache.match([1, 2, 3], { partition: "a" }).pages).toEqual([0, 1]);
  cache.unlock(held);
  expect(cache.flush()).toEqual([1, 0]);
  expect([cache.pageCount, cache.evictablePages]).toEqual([0, 0]);
});

test("partitions never share", () => {
  const cache = new RadixCache({ pageSize: 1 });
  for (const [page, partition] of [undefined, "", "a", "b", "undefined"].entries()) {
    expect(cache.insert([1], [page], { partition }).present).toBe(0);
    expect(cache.match([1], { partition }).pages).toEqual([page]);
  }
  expect(cache.match([1], { partition: "c" }).tokens).toBe(0);
  expect(cache.pageCount).toBe(5);
});

test("an emptied partition starts again", () => {
  const cache = new RadixCache({ pageSize: 1 });
  const empty = cache.match([1], { partition: "a" }).node;
  cache.lock(empty);
  cache.insert([1], [0], { partition: "a" });
  expect(cache.flush()).toEqual([0]);
  cache.insert([1], [4], { partition: "a" });
  cache.unlock(empty);
  expect(cache.match([1], { partition: "a" }).pages).toEqual([4]);
});

test.each([1, 2])("content ids never alias tokens (page size %i)", (pageSize) => {
  const cache = new RadixCache({ pageSize });
  const ids = [7, 7 + 2 ** 31, 7 + 2 ** 32, 7 + 2 ** 52, 2 ** 53 - 1, -7];
  const prompt = (id: number) => Array.from({ length: pageSize }, () => id);
  for (const [page, id] of ids.entries()) {
    expect(cache.insert(prompt(id), [page]).present).toBe(0);
  }
  for (const [page, id] of ids.entries()) expect(cache.match(prompt(id)).pages).toEqual([page]);
  // Both widths of storage along one path.
  const mixed = [...prompt(7), ...prompt(2 ** 53 - 1), ...prompt(7)];
  expect(cache.insert(mixed, [0, 20, 21]).present).toBe(pageSize);
  expect(cache.match(mixed).pages).toEqual([0, 20, 21]);
});

test("pages with the same key are told apart, whichever of them goes", () => {
  // Keys look at 32 bits of a token only.
  const page = (i: number) => [7, 7 + i * 2 ** 32];
  for (let gone = 0; gone < 5; gone++) {
    const cache = new RadixCache({ pageSize: 2 });
    for (let i = 0; i < 5; i++) cache.insert([...page(i), 1, 2], [i, 10 + i]);
    const left = range(0, 5).filter((i) => i !== gone);
    for (const i of left) cache.match([...page(i), 1, 2]);
    expect(cache.evict(2)).toEqual([10 + gone, gone]);
    expect(cache.match(page(gone)).tokens).toBe(0);
    for (const i of left) expect(cache.match([...page(i), 1, 2]).pages).toEqual([i, 10 + i]);
    // Splits put other nodes in their places.
    for (const i of left) expect(cache.insert([...page(i), 3, 4], [i, 20 + i]).present).toBe(2);
    for (const i of left) expect(cache.match([...page(i), 1, 2]).pages).toEqual([i, 10 + i]);
    expect(cache.flush().length).toBe(12);
  }
});

test.each([0, -1, 1.5, 257, Number.NaN])("page size %d is refused", (pageSize) => {
  expect(() => new RadixCache({ pageSize })).toThrow(InvalidRequestError);
});

test("cached tokens of prompts that are ranges of ids", () => {
  const cache = new RadixCache({ pageSize: 1 });
  let nextPage = 0;
  const cachedTokens = (length: number) => {
    const prompt = range(0, length);
    // At least one token has to be computed.
    const { pages, tokens, node } = cache.match(prompt, { limit: length - 1 });
    cache.lock(node);
    const own = range(nextPage, nextPage + length - tokens);
    nextPage += own.length;
    cache.insert(prompt, [...pages, ...own]);
    cache.unlock(node);
    return tokens;
  };
  const lengths = [100, 10_000, 10_000, 1000, 11_000];
  expect(lengths.map(cachedTokens)).toEqual([0, 100, 9999, 999, 10_000]);
  expect(cache.pageCount).toBe(11_000);
});
