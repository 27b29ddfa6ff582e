/** Flushing the prefix cache, and the cached tokens of prompts after each other. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { complete, openEngine } from "../../support/engines/engine.ts";

let engine: Engine;
beforeAll(async () => {
  engine = await openEngine();
});
afterAll(() => engine.close());

const range = (length: number) => Array.from({ length }, (_, i) => i + 3);
const cached = async (length: number) =>
  (await complete(engine, { tokens: range(length), sampling: { maxNewTokens: 1 } })).last
    .cachedTokens;

test("cached tokens after a flush, prompt by prompt", async () => {
  for (let round = 0; round < 2; round++) {
    expect(await engine.flushCache()).toBe(true);
    expect(engine.status().cachedTokens).toBe(0);
    const lengths = [10, 200, 200, 100, 250];
    const found: number[] = [];
    for (const length of lengths) found.push(await cached(length));
    expect(found).toEqual([0, 10, 199, 99, 200]);
    expect(engine.status().cachedTokens).toBe(250);
  }
});

test("nothing is flushed while a request runs; one that is aborted does not hold it up", async () => {
  await cached(50);
  const before = engine.status().cachedTokens;
  const generation = engine.generate({ tokens: range(60), sampling: { ignoreEos: true } });
  await generation.next();
  expect(await engine.flushCache()).toBe(false);
  expect(engine.status().cachedTokens).toBeGreaterThan(0);
  await generation.next();
  await generation.return!();
  expect(before).toBeGreaterThan(0);
  expect(await engine.flushCache()).toBe(true);
  expect(engine.status()).toMatchObject({ cachedTokens: 0, usedTokens: 0 });
  expect(await cached(50)).toBe(0);
  expect(await cached(50)).toBe(49);
});

test("the tree of the cache has the prompts' text, and is empty after a flush", async () => {
  await engine.flushCache();
  const first = await engine.tokenize({ prompt: "The cat sat on the mat." });
  const second = [...first.slice(0, 4), ...range(3)];
  for (const tokens of [first, second]) {
    await complete(engine, { tokens, sampling: { maxNewTokens: 1 } });
  }
  const { nodes, isComplete } = await engine.cacheTree();
  const label = (tokens: readonly number[]) =>
    engine.detokenize(tokens, { skipSpecialTokens: false });
  const shared = { partition: 0, holders: 0 };
  expect(isComplete).toBe(true);
  expect(nodes).toHaveLength(3);
  const [stem, ...branches] = nodes;
  expect(stem).toEqual({
    ...{ ...shared, parent: -1, tokens: 4, pages: 4 },
    label: await label(first.slice(0, 4)),
  });
  for (const [i, rest] of [range(3), first.slice(4)].entries()) {
    expect(branches[i]).toEqual({
      ...{ ...shared, parent: 0, tokens: rest.length, pages: rest.length },
      label: await label(rest),
    });
  }
  await engine.flushCache();
  expect(await engine.cacheTree()).toEqual({ pageSize: 1, nodes: [], isComplete: true });
});
