/**
 * Random sequences over one pool and one cache, beside a plain model of the cache: a map from each
 * cached prefix, a page at a time, to what is known of its last page.
 *
 * @module
 */
import { describe, expect, test } from "vitest";
import { PagePool } from "../../src/cache/page_pool.ts";
import { RadixCache, type RadixNode } from "../../src/cache/radix_cache.ts";

const OPERATIONS = process.env.WISP_TEST_FULL === "1" ? 100_000 : 4000;
const POOL_PAGES = 96;
const LONGEST = 14; // pages
const PARTITIONS = [undefined, "tenant a", "tenant b"];

/** Numbers in [0, 1). (Generator: Mulberry32, T. Ettinger.) */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface Entry {
  readonly page: number;
  readonly parent: Entry | undefined;
  children: number;
  locks: number;
  used: number;
}

class Model {
  readonly entries = new Map<string, Entry>();
  readonly #pageSize: number;
  #clock = 0;

  constructor(pageSize: number) {
    this.#pageSize = pageSize;
  }

  match(tokens: readonly number[], partition: string | undefined, limit: number): Entry[] {
    const found: Entry[] = [];
    for (const key of this.#keys(tokens.slice(0, Math.max(limit, 0)), partition)) {
      const entry = this.entries.get(key);
      if (entry === undefined) break;
      found.push(entry);
    }
    this.#use(found);
    return found;
  }

  insert(tokens: readonly number[], partition: string | undefined, pages: number[]): Entry[] {
    const path: Entry[] = [];
    this.#keys(tokens, partition).forEach((key, i) => {
      const parent = path.at(-1);
      let entry = this.entries.get(key);
      if (entry === undefined) {
        entry = { page: pages[i]!, parent, children: 0, locks: 0, used: 0 };
        this.entries.set(key, entry);
        if (parent !== undefined) parent.children++;
      }
      path.push(entry);
    });
    this.#use(path);
    return path;
  }

  unlock(path: readonly Entry[]): void {
    for (const entry of path) entry.locks--;
    this.#use(path);
  }

  evict(count: number): number[] {
    const freed: number[] = [];
    while (freed.length < count) {
      let oldest: [string, Entry] | undefined;
      for (const [key, entry] of this.entries) {
        if (entry.children > 0 || entry.locks > 0) continue;
        if (oldest === undefined || entry.used < oldest[1].used) oldest = [key, entry];
      }
      if (oldest === undefined) break;
      const [key, entry] = oldest;
      this.entries.delete(key);
      if (entry.parent !== undefined) entry.parent.children--;
      freed.push(entry.page);
    }
    return freed;
  }

  get unlocked(): number {
    let count = 0;
    for (const { locks } of this.entries.values()) if (locks === 0) count++;
    return count;
  }

  #keys(tokens: readonly number[], partition: string | undefined): string[] {
    const size = this.#pageSize;
    let key = `${partition}:`;
    return Array.from({ length: Math.floor(tokens.length / size) }, (_, i) => {
      key += `${tokens.slice(i * size, (i + 1) * size)},`;
      return key;
    });
  }

  #use(path: readonly Entry[]): void {
    this.#clock++;
    // A locked entry is in use until its lock ends.
    for (const entry of path) if (entry.locks === 0) entry.used = this.#clock;
  }
}

/** What a running sequence would hold. */
interface Holder {
  readonly tokens: number[];
  readonly partition: string | undefined;
  pages: number[];
  /** How many of its pages belong to the cache. */
  shared: number;
  node: RadixNode;
  path: Entry[];
}

class World {
  readonly pool = new PagePool(POOL_PAGES, 1);
  readonly cache: RadixCache;
  readonly model: Model;
  readonly holders: Holder[] = [];
  readonly #random: () => number;
  readonly #pageSize: number;
  readonly #contents: number[][];

  constructor(pageSize: number, seed: number) {
    this.cache = new RadixCache({ pageSize });
    this.model = new Model(pageSize);
    this.#pageSize = pageSize;
    this.#random = seeded(seed);
    // Pages that differ in their first token, their last, or above 32 bits only.
    this.#contents = [5, 6, 5 + 2 ** 32, 2 ** 53 - 1].map((id) => [
      ...Array.from({ length: pageSize - 1 }, () => 5),
      id,
    ]);
    this.#contents.push(Array.from({ length: pageSize }, (_, i) => (i === 0 ? 9 : 5)));
  }

  step(): void {
    const kind = this.#random();
    if (kind < 0.3) this.begin();
    else if (kind < 0.55) this.progress();
    else if (kind < 0.8) this.finish();
    else if (kind < 0.9) this.look();
    else if (kind < 0.995) this.evict(this.#below(6));
    else this.evict(Number.POSITIVE_INFINITY);
  }

  /** A sequence starts: its prefix is locked, its other pages are allocated. */
  begin(): void {
    const tokens = this.#tokens();
    const partition = PARTITIONS[this.#below(PARTITIONS.length)];
    const limit = tokens.length - 1;
    const found = this.cache.match(tokens, { limit, partition });
    const path = this.model.match(tokens, partition, limit);
    expect(found.pages).toEqual(path.map(({ page }) => page));
    expect(found.tokens).toBe(path.length * this.#pageSize);
    this.cache.lock(found.node);
    for (const entry of path) entry.locks++;
    const missing = Math.floor(tokens.length / this.#pageSize) - path.length;
    const lacking = missing - this.pool.freeCount;
    if (lacking > 0) this.evict(lacking);
    const holder = { tokens, partition, pages: [...found.pages], shared: path.length, path };
    // Too much is in use; or allocation fails all the same, and nothing may be left behind.
    if (missing > this.pool.freeCount || this.#random() < 0.05) {
      this.#unlock({ ...holder, node: found.node });
      return;
    }
    holder.pages.push(...this.pool.allocate(missing));
    this.holders.push({ ...holder, node: found.node });
  }

  /** A chunk of a running sequence becomes available to others. */
  progress(): void {
    const holder = this.#holder();
    if (holder === undefined) return;
    const pages = holder.shared + this.#below(holder.pages.length - holder.shared + 1);
    this.#insert(holder, pages);
  }

  /** A sequence ends: its answer stays in the cache, or it is aborted. */
  finish(): void {
    const holder = this.#holder();
    if (holder === undefined) return;
    if (this.#random() < 0.7) this.#insert(holder, holder.pages.length);
    this.holders.splice(this.holders.indexOf(holder), 1);
    this.pool.release(holder.pages.slice(holder.shared));
    this.#unlock(holder);
  }

  look(): void {
    const tokens = this.#tokens();
    const partition = PARTITIONS[this.#below(PARTITIONS.length)];
    const limit = this.#below(tokens.length + 2);
    const seen = this.cache.look(tokens, { limit, partition });
    const found = this.cache.match(tokens, { limit, partition });
    const path = this.model.match(tokens, partition, limit);
    expect(found.pages).toEqual(path.map(({ page }) => page));
    expect([seen.tokens, seen.lastPage]).toEqual([found.tokens, found.pages.at(-1)]);
    const locked = path.filter(({ locks }) => locks > 0).length;
    expect(this.cache.lockedTokens(found.node)).toBe(locked * this.#pageSize);
  }

  /** The model says which pages go, and in which order. */
  evict(count: number): void {
    const freed = count === Number.POSITIVE_INFINITY ? this.cache.flush() : this.cache.evict(count);
    expect(freed).toEqual(this.model.evict(count));
    this.pool.release(freed);
  }

  check(): void {
    const { cache, model, pool, holders } = this;
    expect(cache.pageCount).toBe(model.entries.size);
    expect(cache.evictablePages).toBe(model.unlocked);
    const owned = Array.from(model.entries.values(), ({ page }) => page);
    for (const { pages, shared } of holders) owned.push(...pages.slice(shared));
    expect(new Set(owned).size).toBe(owned.length);
    expect(owned.length + pool.freeCount).toBe(POOL_PAGES);
    for (const { pages, shared, path } of holders) {
      expect(path.length).toBe(shared);
      expect(path.every(({ page }, i) => pages[i] === page)).toBe(true);
    }
  }

  #insert(holder: Holder, pages: number): void {
    const tokens = holder.tokens.slice(0, pages * this.#pageSize);
    const own = holder.pages.slice(0, pages);
    const { partition } = holder;
    const { node, present } = this.cache.insert(tokens, own, { partition });
    const before = this.model.match(tokens, partition, tokens.length).length;
    expect(present).toBe(before * this.#pageSize);
    const path = this.model.insert(tokens, partition, own);
    // The new lock comes before the old one goes.
    this.cache.lock(node);
    for (const entry of path) entry.locks++;
    this.#unlock(holder);
    this.pool.release(own.slice(holder.shared, before));
    const { pages: kept } = this.cache.match(tokens, { partition });
    this.model.match(tokens, partition, tokens.length);
    holder.pages = [...kept, ...holder.pages.slice(pages)];
    holder.shared = pages;
    holder.node = node;
    holder.path = path;
  }

  #unlock({ node, path }: Holder): void {
    this.cache.unlock(node);
    this.model.unlock(path);
  }

  #holder(): Holder | undefined {
    return this.holders[this.#below(this.holders.length)];
  }

  #tokens(): number[] {
    const pages = 1 + this.#below(LONGEST);
    // Mostly the same content, so that prefixes are long.
    const content = () => this.#contents[this.#random() < 0.6 ? 0 : this.#below(5)]!;
    const tokens = Array.from({ length: pages }, content).flat();
    return tokens.slice(0, tokens.length - this.#below(this.#pageSize));
  }

  #below(end: number): number {
    return Math.floor(this.#random() * end);
  }
}

describe.each([1, 2, 7, 64])("page size %i", (pageSize) => {
  test.each([1, 2, 3])("no page is lost or owned twice, nothing in use goes (seed %i)", (seed) => {
    const world = new World(pageSize, seed);
    for (let i = 0; i < OPERATIONS / 3; i++) {
      world.step();
      if (i % 5 === 0) world.check();
    }
    while (world.holders.length > 0) world.finish();
    expect(world.cache.evictablePages).toBe(world.cache.pageCount);
    world.evict(Number.POSITIVE_INFINITY);
    expect(world.pool.freeCount).toBe(POOL_PAGES);
    expect([world.cache.pageCount, world.cache.evictablePages]).toEqual([0, 0]);
  });
});
