import { afterEach, expect, test, vi } from "vitest";
import { PagePool } from "../../src/cache/page_pool.ts";
import { RadixCache } from "../../src/cache/radix_cache.ts";

afterEach(() => {
  vi.restoreAllMocks();
});

const PAGES = 64;

/** Prompts that share beginnings of every length, so that nodes are split, cut and taken out. */
const PROMPTS = [9, 17, 3, 30, 12, 30, 1, 22].map((shared, i) =>
  Array.from({ length: 30 }, (_, at) => (at < shared ? at : 100 * (i + 1) + at)),
);

/** Puts prompts into a cache and takes some out; what fails for want of memory is left. */
function fill(cache: RadixCache, pool: PagePool): number {
  let failed = 0;
  const orNot = (work: () => void) => {
    try {
      work();
    } catch (error) {
      expect(error).toBeInstanceOf(RangeError);
      failed += 1;
    }
  };
  for (const [i, prompt] of PROMPTS.entries()) {
    if (pool.freeCount < prompt.length) {
      pool.release(cache.evict(prompt.length - pool.freeCount));
    }
    const pages = pool.allocate(prompt.length);
    let own = pages;
    orNot(() => {
      const { present, presentPages } = cache.insert(prompt, pages);
      expect(presentPages).toHaveLength(present);
      own = pages.slice(0, present);
    });
    pool.release(own);
    orNot(() => {
      cache.match(PROMPTS[(3 * i) % PROMPTS.length]!, { limit: 5 + 3 * i });
    });
    expect(pool.freeCount + cache.pageCount).toBe(PAGES);
  }
  return failed;
}

test("whichever copy of a node there is no memory for, every page is the cache's or the caller's", () => {
  const { slice } = Int32Array.prototype;
  let failures = 0;
  for (let k = 1, calls = k; calls >= k; k++) {
    calls = 0;
    const spy = vi.spyOn(Int32Array.prototype, "slice").mockImplementation(function (
      this: Int32Array<ArrayBuffer>,
      ...range
    ) {
      calls += 1;
      if (calls === k) throw new RangeError("Array buffer allocation failed");
      return slice.apply(this, range) as Int32Array<ArrayBuffer>;
    });
    const pool = new PagePool(PAGES, 1);
    const cache = new RadixCache({ pageSize: 1 });
    failures += fill(cache, pool);
    spy.mockRestore();
    // What is in it is found by its tokens, and all of it can be taken out.
    expect(cache.evictablePages).toBe(cache.pageCount);
    const cached = cache.pageCount;
    const freed = cache.flush();
    expect([freed.length, new Set(freed).size]).toEqual([cached, cached]);
    pool.release(freed);
    expect(pool.freeCount).toBe(PAGES);
  }
  expect(failures).toBeGreaterThan(5);
});
