import { expect, test } from "vitest";
import { RadixCache } from "../../src/cache/radix_cache.ts";

const range = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);

test("look() finds what match() finds, with any limit and page size", () => {
  let state = 77;
  const random = (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  for (const pageSize of [1, 3]) {
    const cache = new RadixCache({ pageSize });
    let page = 0;
    for (let turn = 0; turn < 400; turn++) {
      // Few token ids, so that prefixes are shared and nodes split.
      const tokens = Array.from({ length: pageSize * random(12) }, () => random(2));
      const partition = ["a", undefined][random(2)];
      const pages = range(page, tokens.length / pageSize);
      page += pages.length;
      cache.insert(tokens, pages, { partition });
      const wanted = Array.from({ length: random(40) }, () => random(2));
      const options = { partition, limit: random(40) };
      const { tokens: found, lastPage, path } = cache.look(wanted, options);
      const match = cache.match(wanted, options);
      expect([found, lastPage]).toEqual([match.tokens, match.pages.at(-1)]);
      expect(path.length === 0).toBe(found === 0);
      // The match has split the last node: now the path covers just what was found.
      const covered = cache.look(wanted, options).path.map((node) => node.pageCount * pageSize);
      expect(covered.reduce((sum, count) => sum + count, 0)).toBe(found);
    }
  }
});

test("look() is no use: it splits nothing and what it finds stays the next to go", () => {
  const cache = new RadixCache({ pageSize: 1 });
  cache.insert(range(0, 10), range(0, 10));
  cache.insert(range(50, 10), range(50, 10));
  const { tokens, path } = cache.look(range(0, 5));
  expect([tokens, path.length, path[0]!.pageCount]).toEqual([5, 1, 10]);
  expect(cache.evict(10).sort((a, b) => a - b)).toEqual(range(0, 10));
  expect(cache.look(range(0, 5))).toEqual({ tokens: 0, lastPage: undefined, path: [] });
  cache.flush();
  expect(cache.look(range(50, 5)).tokens).toBe(0);
});
