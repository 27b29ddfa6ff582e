import { expect, test } from "vitest";
import { PagePool } from "../../src/cache/page_pool.ts";
import { CapacityError, KernelError } from "../../src/errors.ts";

/** A small generator of numbers in [0, 1); this file needs no GPU and imports none. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

test("allocate() takes nothing when it cannot take all", () => {
  const pool = new PagePool(4, 16);
  pool.allocate(3);
  expect(() => pool.allocate(2)).toThrow(CapacityError);
  expect(pool.freeCount).toBe(1);
});

test("release() refuses a page that is free already", () => {
  const pool = new PagePool(4, 16);
  const pages = pool.allocate(1);
  pool.release(pages);
  expect(() => pool.release(pages)).toThrow(KernelError);
  expect(pool.freeCount).toBe(4);
});

test("pagesFor() rounds up", () => {
  const pool = new PagePool(4, 16);
  expect([0, 1, 16, 17].map((tokens) => pool.pagesFor(tokens))).toEqual([0, 1, 1, 2]);
});

test.each([1, 2, 3])("no page is lost or handed out twice (seed %i)", (seed) => {
  const random = seeded(seed);
  const pool = new PagePool(32, 4);
  const held: number[][] = [];
  for (let step = 0; step < 5000; step++) {
    const count = Math.floor(random() * 6);
    if (random() < 0.5 && count <= pool.freeCount) held.push(pool.allocate(count));
    else if (held.length > 0) pool.release(held.splice(Math.floor(random() * held.length), 1)[0]!);
    const pages = held.flat();
    expect(new Set(pages).size).toBe(pages.length);
    expect(pages.length + pool.freeCount).toBe(32);
  }
});
