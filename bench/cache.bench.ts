/**
 * What the radix cache costs with a million tokens in it: time a prompt, memory a token.
 *
 * @module
 */
import { cpus } from "node:os";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { beforeAll, expect, test } from "vitest";
import { RadixCache } from "../src/cache/radix_cache.ts";

const MILLION = 1e6;
const PROMPT = 100;
const PROMPTS = 500;
/** Milliseconds for a prompt's match and insertion. */
const LIMIT_MS = 1;

setFlagsFromString("--expose_gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes in use; array buffers are swept after the collection that frees them. */
async function bytesInUse(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collect();
    await sleep(50);
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage();
  return heapUsed + arrayBuffers;
}

/** Token `i` of run `run`: runs differ in their first token already. */
const token = (run: number, i: number) => (Math.imul(run + 1, 7919) + Math.imul(i, 31)) & 0x1ffff;

interface Shape {
  readonly name: string;
  readonly pageSize: number;
  /** Tokens at the front of each group's prompts. */
  readonly shared: number;
  readonly branches: number;
  /** Tokens of a prompt after them. */
  readonly own: number;
}

const SHAPES: readonly Shape[] = [
  { name: "short prompts", pageSize: 1, shared: 0, branches: 1, own: 128 },
  { name: "long prompts", pageSize: 1, shared: 0, branches: 1, own: 32_768 },
  { name: "conversations", pageSize: 1, shared: 1984, branches: 18, own: 448 },
  { name: "conversations", pageSize: 16, shared: 1984, branches: 18, own: 448 },
  { name: "conversations", pageSize: 64, shared: 1984, branches: 18, own: 448 },
];

class Filled {
  readonly cache: RadixCache;
  readonly groups: number;
  readonly #shape: Shape;
  #nextPage = 0;

  constructor(shape: Shape) {
    this.#shape = shape;
    this.cache = new RadixCache(shape);
    this.groups = Math.ceil(MILLION / (shape.shared + shape.branches * shape.own));
    for (let group = 0; group < this.groups; group++) {
      for (let branch = 0; branch < shape.branches; branch++) {
        this.add(this.prompt(group, branch));
      }
    }
  }

  prompt(group: number, branch: number): Uint32Array {
    const { shared, own } = this.#shape;
    const run = 100_000 + group * this.#shape.branches + branch;
    return Uint32Array.from({ length: shared + own }, (_, i) =>
      i < shared ? token(group, i) : token(run, i),
    );
  }

  /**
   * What a scheduler does about a prompt: match, lock, insert, unlock.
   *
   * @returns Tokens of the prompt that were cached.
   */
  add(prompt: Uint32Array): number {
    const { cache } = this;
    const { pages, tokens, node } = cache.match(prompt);
    cache.lock(node);
    const whole = Math.floor(prompt.length / cache.pageSize);
    const table = pages.slice();
    while (table.length < whole) table.push(this.#nextPage++);
    const inserted = cache.insert(prompt.subarray(0, whole * cache.pageSize), table);
    cache.unlock(node);
    if (inserted.present !== tokens) throw new Error("match and insert disagree");
    return tokens;
  }
}

interface Times {
  readonly median: number;
  /** 99 of 100 are faster; the rest are mostly other processes' time. */
  readonly slow: number;
  readonly worst: number;
}

/** Milliseconds of a call. */
function times(count: number, work: (i: number) => void): Times {
  const all = Array.from({ length: count }, (_, i) => {
    const started = performance.now();
    work(i);
    return performance.now() - started;
  }).sort((a, b) => a - b);
  const at = (share: number) => all[Math.min(Math.floor(count * share), count - 1)]!;
  return { median: at(0.5), slow: at(0.99), worst: at(1) };
}

const show = ({ median, slow, worst }: Times) =>
  `median ${median.toFixed(4)} ms, 99 % ${slow.toFixed(4)} ms, worst ${worst.toFixed(3)} ms`;

beforeAll(() => {
  console.log(`${cpus()[0]!.model}, Node ${process.versions.node}`);
});

test.each(SHAPES)(
  "radix cache of 1e6 tokens: $name, page size $pageSize",
  async (shape) => {
    const { pageSize } = shape;
    for (let i = 0; i < 2; i++) new Filled(shape); // the compiler's turn
    const before = await bytesInUse();
    const filled = new Filled(shape);
    const { cache, groups } = filled;
    const tokens = cache.pageCount * pageSize;
    const perToken = ((await bytesInUse()) - before) / tokens;
    expect(tokens).toBe(groups * (shape.shared + shape.branches * shape.own));
    expect(tokens).toBeGreaterThanOrEqual(MILLION);
    expect(perToken).toBeLessThan(16);

    const half = Math.floor(PROMPT / 2 / pageSize) * pageSize;
    const whole = Math.floor(PROMPT / pageSize) * pageSize;
    // Nothing that is timed below was seen by the cache before.
    const fresh = Array.from({ length: PROMPTS }, (_, i) => {
      const prompt = filled.prompt(i % groups, 0).slice(0, PROMPT);
      for (let k = half; k < PROMPT; k++) prompt[k] = token(500_000 + i, k);
      return prompt;
    });
    const found: number[] = [];
    const first = times(PROMPTS, (i) => found.push(filled.add(fresh[i]!)));
    expect(found).toEqual(fresh.map(() => half));
    expect(cache.pageCount).toBe((tokens + PROMPTS * (whole - half)) / pageSize);
    const again = times(PROMPTS, (i) => found.push(filled.add(fresh[i]!)));
    expect(found.slice(PROMPTS)).toEqual(fresh.map(() => whole));

    const freed: number[][] = [];
    const pages = Math.ceil(PROMPT / pageSize);
    const evict = times(PROMPTS, () => freed.push(cache.evict(pages)));
    expect(new Set(freed.flat()).size).toBe(PROMPTS * pages);
    const left = cache.pageCount;
    const started = performance.now();
    expect(cache.flush().length).toBe(left);
    const flush = performance.now() - started;
    expect(cache.pageCount).toBe(0);

    expect(first.median).toBeLessThan(LIMIT_MS);
    expect(again.median).toBeLessThan(LIMIT_MS);
    console.log(
      [
        `${shape.name}, page size ${pageSize}: ${tokens} tokens`,
        `  memory                     ${perToken.toFixed(2)} bytes a token`,
        `  ${PROMPT} tokens, half cached     ${show(first)}`,
        `  ${PROMPT} tokens, all cached      ${show(again)}`,
        `  eviction of ${PROMPT} tokens     ${show(evict)}`,
        `  flush                      ${flush.toFixed(1)} ms`,
      ].join("\n"),
    );
  },
  120_000,
);

test("partitions that came and went leave nothing behind", async () => {
  const cache = new RadixCache({ pageSize: 1 });
  const run = (count: number) => {
    for (let i = 0; i < count; i++) {
      cache.match([1, 2], { partition: `unused ${i}` });
      cache.insert([1, 2], [0, 1], { partition: `tenant ${i}` });
      expect(cache.evict(2)).toEqual([1, 0]);
    }
  };
  run(1000);
  const before = await bytesInUse();
  run(10_000);
  const grown = (await bytesInUse()) - before;
  console.log(`10000 partitions came and went: ${(grown / 1024).toFixed(0)} KiB`);
  expect(grown).toBeLessThan(512 * 1024);
}, 120_000);
