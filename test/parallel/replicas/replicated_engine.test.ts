/** Engines that share requests out, over scripted ones: who answers, what is told of all, what ends. */
import { describe, expect, test } from "vitest";
import { CapacityError, DeviceError, InvalidRequestError } from "../../../src/errors.ts";
import type { GenerationEngine, GenerationRequest } from "../../../src/generation.ts";
import {
  type ReplicasOptions,
  ReplicatedEngine,
} from "../../../src/parallel/replicas/replicated_engine.ts";
import type { CacheTree } from "../../../src/prefix_cache.ts";
import type { ScriptedEngineOptions } from "../../support/engines/scripted_engine.ts";
import { openGate, ToldEngine } from "../../support/engines/told_engine.ts";

function setUp(
  count = 3,
  options: ReplicasOptions = {},
  scripted: ScriptedEngineOptions = { script: () => ({ pieces: ["a", "b"] }) },
) {
  const engines = Array.from({ length: count }, () => new ToldEngine(scripted));
  const engine = new ReplicatedEngine(engines, options);
  return { engine, engines };
}

/** The replica that answers, and what it says. */
async function ask(engine: GenerationEngine, request: GenerationRequest = { prompt: "Hi" }) {
  let text = "";
  const ranks = new Set<number | undefined>();
  for await (const chunk of engine.generate(request)) {
    text += chunk.text;
    ranks.add(chunk.dataParallelRank);
  }
  expect(ranks.size).toBe(1);
  return { text, rank: [...ranks][0] };
}

const ranksOf = async (engine: GenerationEngine, count: number, request?: GenerationRequest) => {
  const ranks: (number | undefined)[] = [];
  for (let i = 0; i < count; i++) ranks.push((await ask(engine, request)).rank);
  return ranks;
};

describe("a request goes", () => {
  test("by turns, unless it names a replica, which moves no turn", async () => {
    const { engine, engines } = setUp();
    expect(await ranksOf(engine, 4)).toEqual([0, 1, 2, 0]);
    expect(await ranksOf(engine, 2, { prompt: "Hi", dataParallelRank: 0 })).toEqual([0, 0]);
    expect(await ranksOf(engine, 2)).toEqual([1, 2]);
    expect(engines.map(({ requests }) => requests.length)).toEqual([4, 2, 2]);
    // A replica alone knows of no others.
    expect(engines[0]!.requests.some((one) => "dataParallelRank" in one)).toBe(false);
  });

  test.each([3, -1, 0.5, Number.NaN])("nowhere when it names replica %s", async (rank) => {
    const { engine, engines } = setUp();
    const answer = ask(engine, { prompt: "Hi", dataParallelRank: rank });
    await expect(answer).rejects.toThrow(InvalidRequestError);
    await expect(answer).rejects.toMatchObject({ field: "dataParallelRank" });
    expect(engines.flatMap(({ requests }) => requests)).toEqual([]);
  });

  test("to the shortest queue, as it is when it begins", async () => {
    const gate = openGate();
    const { engine, engines } = setUp(
      3,
      { loadBalanceMethod: "shortest_queue" },
      { script: () => ({ pieces: ["a"], gate: () => gate.promise }) },
    );
    const begin = (rank?: number) => {
      const request = { prompt: "Hi", ...(rank !== undefined && { dataParallelRank: rank }) };
      const stream = engine.generate(request)[Symbol.asyncIterator]();
      void stream.next();
      return stream;
    };
    const first = [begin(), begin(), begin(), begin(), begin()];
    expect(engines.map(({ requests }) => requests.length)).toEqual([2, 2, 1]);
    begin(2);
    begin(2);
    void first[3]!.return!();
    begin();
    expect(engines.map(({ requests }) => requests.length)).toEqual([3, 2, 3]);
    gate.resolve();
  });

  test("to the fewest tokens, with those that are not read yet", async () => {
    const gate = openGate();
    const { engine, engines } = setUp(
      3,
      { loadBalanceMethod: "minimum_tokens" },
      { script: () => ({ pieces: ["a"], gate: () => gate.promise }) },
    );
    const begin = (tokens: number) =>
      void engine
        .generate({ tokens: Array(tokens).fill(5) })
        [Symbol.asyncIterator]()
        .next();
    engines[0]!.told = { usedTokens: 50 };
    engines[1]!.told = { usedTokens: 10, queuedTokens: 30 };
    engines[2]!.told = { usedTokens: 30 };
    for (const tokens of [15, 3, 3, 8, 5, 3]) begin(tokens);
    const lengths = engines.map(({ requests }) => requests.map((one) => one.tokens!.length));
    // 50 40 30 -> 45 in 2, 43 in 1, 46 in 1, 53 in 2, 51 in 1, and 50 in 0 is the least.
    expect(lengths).toEqual([[3], [3, 3, 5], [15, 8]]);
    gate.resolve();
  });

  test("past those that are gone, recovering, stalled or full, as long as there are others", async () => {
    const { engine, engines } = setUp(5, { stallSeconds: 20 });
    engines[0]!.told = { healthy: false };
    engines[1]!.told = { recovering: true };
    engines[2]!.told = { stalledFor: 20 };
    engines[3]!.told = { maxRunningRequests: 0, maxQueuedRequests: 0 };
    expect(await ranksOf(engine, 3)).toEqual([4, 4, 4]);
    engines[4]!.told = engines[3]!.told;
    expect(await ranksOf(engine, 4)).toEqual([3, 4, 3, 4]);
    for (const one of [3, 4]) engines[one]!.told = { healthy: false };
    expect(await ranksOf(engine, 2)).toEqual([2, 2]);
    engines[2]!.told = { healthy: false };
    expect(await ranksOf(engine, 2)).toEqual([1, 1]);
    engines[0]!.told = { draining: true };
    expect(await ranksOf(engine, 2)).toEqual([1, 1]);
    engines[1]!.told = { healthy: false };
    expect(await ranksOf(engine, 2)).toEqual([0, 0]);
    engines[0]!.told = { healthy: false, draining: true };
    expect(await ranksOf(engine, 5)).toEqual([0, 1, 2, 3, 4].map((i) => (i + 1) % 5));
    engines[1]!.told = {};
    expect(await ranksOf(engine, 2)).toEqual([1, 1]);
    // Who names one has it.
    expect(await ranksOf(engine, 1, { prompt: "Hi", dataParallelRank: 3 })).toEqual([3]);
  });

  test.each([
    ["a device", { recoveries: 1 }],
    ["its ranks", { restarts: 1 }],
  ])("where others have gone that begin alike, until that is lost with %s", async (_, told) => {
    const { engine, engines } = setUp(2, { loadBalanceMethod: "cache_aware" });
    const request = { prompt: "Once upon a time there was a fox who had a house" };
    expect(await ranksOf(engine, 3, request)).toEqual([0, 0, 0]);
    expect(
      (await ask(engine, { prompt: "Quite another text, which is longer. ".repeat(9) })).rank,
    ).toBe(1);
    engines[0]!.told = told;
    // Replica 0 has the least of all prompts now, and gets a text that is new to it.
    expect((await ask(engine, { prompt: "0123456789 ".repeat(200) })).rank).toBe(0);
    expect(await ranksOf(engine, 2, request)).toEqual([1, 1]);
  });
});

describe("a request ends", () => {
  test("with its replica's error, and later ones go to others", async () => {
    const lost = new DeviceError("Cannot generate: the device is lost");
    const { engine, engines } = setUp(
      2,
      {},
      {
        script: ({ prompt }) => ({
          pieces: ["a", "b", "c"],
          ...(prompt === "fatal" && { failure: { at: 1, error: lost } }),
        }),
      },
    );
    await expect(ask(engine, { prompt: "fatal" })).rejects.toBe(lost);
    engines[0]!.told = { healthy: false };
    expect(await ranksOf(engine, 3)).toEqual([1, 1, 1]);
    expect(engine.status()).toMatchObject({ healthy: true, runningRequests: 0 });
    engines[1]!.told = { healthy: false };
    expect(engine.status().healthy).toBe(false);
  });

  test("by abort, wherever it is, and when its caller leaves, also while it waits", async () => {
    const gate = openGate();
    const gated = (chunk: number) => (chunk === 0 ? Promise.resolve() : gate.promise);
    const { engine, engines } = setUp(
      2,
      {},
      { script: () => ({ pieces: ["a", "b"], gate: gated }) },
    );
    const begin = (requestId: string) => {
      const stream = engine.generate({ prompt: "Hi", requestId })[Symbol.asyncIterator]();
      return stream.next().then(() => stream);
    };
    const [, second, third] = await Promise.all(["x", "y", "z"].map(begin));
    engine.abort("y");
    const last = await second!.next();
    expect(last.value).toMatchObject({ dataParallelRank: 1, finish: { type: "abort" } });
    expect((await second!.next()).done).toBe(true);
    expect(engines.map(({ running }) => running)).toEqual([["x", "z"], []]);
    const pending = third!.next();
    const left = third!.return!();
    gate.resolve();
    await Promise.all([pending, left]);
    expect(engines[0]!.running).not.toContain("z");
    expect(await third!.next()).toEqual({ done: true, value: undefined });
  });

  test("where it has no place, with what its replica says", async () => {
    const { engine } = setUp(1, {}, { capacity: 0 });
    await expect(ask(engine)).rejects.toThrow(CapacityError);
  });
});

test("status() has sums, what is still possible, and each replica's own", () => {
  const { engine, engines } = setUp();
  const store = { bytes: 7, storedTokens: 1, restoredTokens: 2 };
  const figures = { verifySteps: 2, proposedDrafts: 6, acceptedDrafts: 4 };
  engines[0]!.told = { usedTokens: 5, stalledFor: 400, speculation: figures, prefixStore: store };
  engines[1]!.told = { usedTokens: 7, stalledFor: 2, speculation: figures, maxQueuedRequests: 9 };
  engines[2]!.told = { healthy: false, retractions: 3, prefixStore: { ...store, bytes: 9 } };
  const status = engine.status();
  expect(status).toMatchObject({
    healthy: true,
    recovering: false,
    usedTokens: 12,
    retractions: 3,
    maxRunningRequests: 64,
    totalTokens: 2 * 65536,
    weightBytes: 3 * 2 ** 30,
    // Some steps finish.
    stalledFor: 2,
    speculation: { verifySteps: 4, proposedDrafts: 12, acceptedDrafts: 8 },
    prefixStore: { bytes: 9, storedTokens: 2, restoredTokens: 4 },
  });
  // Of the other one there is no limit.
  expect(status.maxQueuedRequests).toBeUndefined();
  expect(status.replicas).toEqual(engines.map((one) => one.status()));
  for (const one of engines) one.told = { recovering: true, maxQueuedRequests: 9 };
  expect(engine.status()).toMatchObject({ healthy: true, recovering: true, maxQueuedRequests: 27 });
  // As an engine tells that is being started again.
  for (const one of engines) one.told = { healthy: false, recovering: true, restarts: 2 };
  expect(engine.status()).toMatchObject({ healthy: false, recovering: true, restarts: 6 });
});

test("flushCache() empties all that live, or none while one has work", async () => {
  const { engine, engines } = setUp();
  engines[2]!.told = { healthy: false };
  engines[1]!.told = { runningRequests: 1 };
  expect(await engine.flushCache()).toBe(false);
  expect(engines.flatMap(({ flushes }) => flushes)).toEqual([]);
  engines[1]!.told = {};
  expect(await engine.flushCache({ stored: true })).toBe(true);
  expect(engines.map(({ flushes }) => flushes)).toEqual([
    [{ stored: true }],
    [{ stored: true }],
    [],
  ]);
});

test("texts are read by one that can, and all are closed, also where one does not close", async () => {
  const { engine, engines } = setUp();
  engines[0]!.told = { healthy: false };
  expect(await engine.tokenize({ prompt: "Hi" })).toEqual([72, 105]);
  expect(await engine.detokenize([72, 105])).toBe("Hi");
  expect(engines.map(({ tokenized }) => tokenized.length)).toEqual([0, 1, 0]);
  engines[0]!.close = () => Promise.reject(new DeviceError("Cannot close it"));
  await expect(engine.close()).rejects.toThrow("Cannot close it");
  expect(engines.map(({ closed }) => closed)).toEqual([0, 1, 1]);
});

describe("replicas", () => {
  test("are of one model, with one arithmetic, and each is one engine", () => {
    const other = new ToldEngine({ model: { vocabularySize: 7 } });
    const half = new ToldEngine();
    half.told = { numericClasses: { prefill: "fma128", decode: "f16" } };
    const one = new ToldEngine();
    const join = (...engines: readonly GenerationEngine[]) => new ReplicatedEngine(engines);
    expect(() => join()).toThrow("Cannot share requests out: there is no engine");
    expect(() => join(one, one)).toThrow("Cannot share requests out: an engine is there twice");
    expect(() => join(one, other)).toThrow(
      "vocabularySize of engine 1 is 7, and of the first 65536",
    );
    expect(() => join(one, half)).toThrow("decode of engine 1 is f16, and of the first fma128");
  });

  test("have the context that each of them has", () => {
    const engines = [64, 32].map((contextLength) => new ToldEngine({ model: { contextLength } }));
    const { model } = new ReplicatedEngine(engines);
    expect([model.contextLength, model.dataParallelSize]).toEqual([32, 2]);
  });

  test("can do together what each of them can", () => {
    const { engine, engines } = setUp(2);
    expect([engine.profile, engine.cacheTree, engine.recordExperts]).toEqual(
      Array(3).fill(undefined),
    );
    const able = engines.map((one) =>
      Object.assign(one, { cacheTree: async () => ({}) as CacheTree }),
    );
    expect(new ReplicatedEngine(able).cacheTree).toBeDefined();
  });
});
