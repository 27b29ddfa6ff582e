import { expect, test, vi } from "vitest";
import { rootKey } from "../../src/cache/prefix_block.ts";
import { PrefixStore, type PrefixStoreOptions } from "../../src/cache/prefix_store.ts";
import { MemoryBlobs } from "../support/engines/memory_blobs.ts";

const BLOCK = 4;
const PAGES = 100;
/** Head and pages. */
const BYTES = 48 + 4 * BLOCK + PAGES;
const range = (first: number, count: number) => Array.from({ length: count }, (_, i) => first + i);
const shared = { partition: undefined };

function open(storage: MemoryBlobs, options: Partial<PrefixStoreOptions> = {}) {
  return PrefixStore.open({
    ...{ storage, blockTokens: BLOCK, packedSizes: [PAGES] },
    rootOf: (partition) => rootKey({ partition: partition ?? null }),
    ...options,
  });
}

const pages = (value: number) => new Uint8Array(PAGES).fill(value);

/** Stores a prefix; the pages of its blocks hold their numbers. */
async function store(into: PrefixStore, tokens: readonly number[], partition?: string) {
  const blocks = await into.blocks(tokens, { partition });
  const written: boolean[] = [];
  for (const [i, block] of blocks.entries()) {
    if (!into.has(block)) written.push(await into.write(block, pages(i), blocks));
  }
  await into.markUsed(blocks);
  return written;
}

const found = async (store: PrefixStore, tokens: readonly number[], partition?: string) =>
  (await store.find(tokens, { partition })).length;

test("a store finds the longest prefix that any store has put there", async () => {
  const storage = new MemoryBlobs();
  const first = await open(storage);
  expect(await store(first, range(0, 14))).toEqual([true, true, true]);
  expect(await store(first, [...range(0, 8), ...range(50, 4)])).toEqual([true]);
  const { read } = storage.calls;
  for (const one of [first, await open(storage)]) {
    expect(await found(one, range(0, 14))).toBe(3);
    expect(await found(one, range(0, 11))).toBe(2);
    expect(await found(one, [...range(0, 8), ...range(50, 9)])).toBe(3);
    expect(await found(one, range(1, 14))).toBe(0);
    expect(await found(one, range(0, 14), "salt")).toBe(0);
    expect(await one.find(range(0, 14), { ...shared, limit: 9 })).toHaveLength(2);
    expect([one.blockCount, one.byteLength]).toEqual([4, 4 * BYTES]);
  }
  // Nothing is read to find it.
  expect(storage.calls.read).toBe(read);
  const [, second] = await first.find(range(0, 14), shared);
  expect(await first.read(second!)).toEqual(pages(1));
});

test("a block that is gone or damaged is forgotten, and told of once", async () => {
  const storage = new MemoryBlobs();
  const onProblem = vi.fn();
  const one = await open(storage, { onProblem });
  await store(one, range(0, 12));
  const blocks = await one.find(range(0, 12), shared);
  storage.blobs.delete(blocks[2]!.name);
  expect(await one.read(blocks[2]!)).toBeUndefined();
  expect(onProblem).not.toHaveBeenCalled();
  storage.blobs.get(blocks[1]!.name)!.bytes = new Uint8Array(10);
  storage.blobs.get(blocks[0]!.name)!.bytes[50]! ^= 1;
  for (const block of blocks.slice(0, 2)) expect(await one.read(block)).toBeUndefined();
  expect(onProblem.mock.calls).toEqual([
    ["Cannot take a stored prefix (tokens): it is not the block's"],
  ]);
  expect(storage.blobs.size).toBe(0);
  expect([one.blockCount, one.byteLength]).toEqual([0, 0]);
  expect(await found(one, range(0, 12))).toBe(0);
});

test("room is made by what was not used for longest, the ends of prefixes first", async () => {
  const storage = new MemoryBlobs();
  let now = 1e12;
  const clock = vi.spyOn(Date, "now").mockImplementation(() => now);
  try {
    const one = await open(storage, { maxBytes: 5 * BYTES });
    for (const first of [0, 100]) {
      await store(one, range(first, 8));
      now += 1e6;
    }
    await one.markUsed(await one.find(range(0, 8), shared));
    now += 1e6;
    expect(await store(one, range(200, 8))).toEqual([true, true]);
    for (const any of [one, await open(storage)]) {
      expect(await found(any, range(0, 8))).toBe(2);
      expect(await found(any, range(100, 8))).toBe(1);
      expect(await found(any, range(200, 8))).toBe(2);
    }
    // Nothing makes room for its own end.
    expect(await store(one, range(300, 28))).toEqual([true, true, true, true, true, false, false]);
    expect(await found(one, range(300, 28))).toBe(5);
    expect(one.byteLength).toBe(5 * BYTES);
  } finally {
    clock.mockRestore();
  }
});

test("a storage that is full is left alone for a while; requests go on", async () => {
  const storage = new MemoryBlobs();
  const onProblem = vi.fn();
  const one = await open(storage, { onProblem });
  await store(one, range(0, 4));
  storage.faults.write = new Error("ENOSPC: no space left on device");
  let now = performance.now();
  const clock = vi.spyOn(performance, "now").mockImplementation(() => now);
  try {
    expect(await store(one, range(100, 12))).toEqual([false, false, false]);
    expect(storage.calls.write).toBe(2);
    expect(one.mayWrite).toBe(false);
    now += 61_000;
    expect(await store(one, range(100, 4))).toEqual([false]);
    expect(onProblem.mock.calls).toEqual([
      ["Cannot write stored prefixes: ENOSPC: no space left on device"],
    ]);
    delete storage.faults.write;
    now += 61_000;
    expect(await store(one, range(100, 8))).toEqual([true, true]);
    expect(await found(one, range(0, 4))).toBe(1);
    // It worked in between: now it is news again.
    storage.faults.write = new Error("quota");
    expect(await store(one, range(200, 4))).toEqual([false]);
    expect(onProblem).toHaveBeenCalledTimes(2);
  } finally {
    clock.mockRestore();
  }
});

test("a storage with less room than it says has new blocks in the place of old ones", async () => {
  const storage = new MemoryBlobs();
  storage.capacity = async () => 1e9;
  storage.room = 3.5 * BYTES;
  storage.isFull = (error) => (error as Error).message === "no room";
  const onProblem = vi.fn();
  let now = 1e12;
  const clock = vi.spyOn(Date, "now").mockImplementation(() => now);
  try {
    const one = await open(storage, { onProblem });
    expect(await store(one, range(0, 12))).toEqual([true, true, true]);
    now += 1e6;
    expect(await store(one, range(100, 8))).toEqual([true, true]);
    expect(await found(one, range(0, 12))).toBe(1);
    expect(await found(one, range(100, 8))).toBe(2);
    expect(one.byteLength).toBe(3 * BYTES);
    expect(onProblem).not.toHaveBeenCalled();
    // Where nothing may go it is left alone, and `onProblem` hears of it.
    expect(await store(one, range(200, 16))).toEqual([true, true, true, false]);
    expect(onProblem.mock.calls).toEqual([["Cannot write stored prefixes: no room"]]);
    expect(one.mayWrite).toBe(false);
  } finally {
    clock.mockRestore();
  }
});

test("no fault of the storage is a request's error", async () => {
  const storage = new MemoryBlobs();
  await store(await open(storage), range(0, 8));
  const blind = new MemoryBlobs();
  const methods = ["list", "read", "write", "delete", "markUsed", "capacity"] as const;
  blind.capacity = () => Promise.reject(new Error("no"));
  for (const method of methods) {
    storage.faults[method] = new Error("no");
    blind.faults[method] = new Error("no");
  }
  const onProblem = vi.fn();
  const unseen = await open(blind, { onProblem });
  expect(await found(unseen, range(0, 8))).toBe(0);
  expect(onProblem.mock.calls).toEqual([["Cannot ask for room for stored prefixes: no"]]);
  delete storage.faults.list;
  const seen = await open(storage);
  const [block] = await seen.find(range(0, 8), shared);
  expect(await seen.read(block!)).toBeUndefined();
  await seen.markUsed([block!]);
  await seen.clear();
  expect(await found(seen, range(0, 8))).toBe(0);
});

test("the storage says how much room there is, unless the caller does", async () => {
  const storage = new MemoryBlobs();
  storage.capacity = async () => 2 * BYTES;
  expect(await store(await open(storage), range(0, 12))).toEqual([true, true, false]);
  expect(await store(await open(storage, { maxBytes: 3 * BYTES }), range(0, 12))).toEqual([true]);
});

test("refresh() sees what other stores have stored; clear() deletes that too", async () => {
  const storage = new MemoryBlobs();
  const [one, other] = [await open(storage), await open(storage)];
  await store(other, range(0, 8));
  expect(await found(one, range(0, 8))).toBe(0);
  await one.refresh();
  expect(await found(one, range(0, 8))).toBe(2);
  await store(other, range(100, 4));
  await one.clear();
  expect(storage.blobs.size).toBe(0);
  expect(one.byteLength).toBe(0);
});

test("a prefix that is used again and again is marked once a minute", async () => {
  const storage = new MemoryBlobs();
  const one = await open(storage);
  await store(one, range(0, 12));
  const blocks = await one.find(range(0, 12), shared);
  const { markUsed } = storage.calls;
  for (let i = 0; i < 5; i++) await one.markUsed(blocks);
  expect(storage.calls.markUsed).toBe(markUsed);
  const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now() + 61_000);
  try {
    for (let i = 0; i < 5; i++) await one.markUsed(blocks);
  } finally {
    clock.mockRestore();
  }
  expect(storage.calls.markUsed).toBe(markUsed + 1);
});
