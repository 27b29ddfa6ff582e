import { expect, test, vi } from "vitest";
import { rootKey } from "../../../src/cache/prefix_block.ts";
import { PrefixStore } from "../../../src/cache/prefix_store.ts";
import { PrefixTransfers } from "../../../src/engine/prefix/prefix_transfers.ts";
import { MemoryBlobs } from "../../support/engines/memory_blobs.ts";
import { scheduler, sequence, slotCarrier } from "../../support/engines/sequences.ts";
import {
  SimulatedEngine,
  type SimulatedOptions,
} from "../../support/simulated/simulated_engine.ts";
import { othersTurn, slowCodec } from "../../support/simulated/simulated_prefixes.ts";
import { until } from "../../support/until.ts";

const FULL = process.env.WISP_TEST_FULL === "1";
const EPISODES = FULL ? 600 : 30;
const SEEDS = [1, 2, 3];
const range = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => 2 + ((first + 7 * i) % 60));

function seeded(seed: number): (below: number) => number {
  let state = seed * 7919;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Blocks of 8 tokens or a page; a slot of a page is 4 bytes. */
function open(storage: MemoryBlobs, pageSize: number, maxBytes?: number): Promise<PrefixStore> {
  const blockTokens = Math.ceil(8 / pageSize) * pageSize;
  return PrefixStore.open({
    ...{ storage, blockTokens, maxBytes, packedSizes: [4 * blockTokens] },
    rootOf: (partition) => rootKey([pageSize, partition ?? null]),
  });
}

async function engineOn(storage: MemoryBlobs, options: Partial<SimulatedOptions> = {}) {
  const { pageSize = 1 } = options;
  const store = await open(storage, pageSize);
  const room = { pageCount: 96 / pageSize, maxPrefillRows: 16, maxRows: 16 };
  return new SimulatedEngine({ ...room, pageSize, shared: true, store, ...options });
}

/** Serves a prompt alone; tells how many of its tokens were cached. */
async function serve(engine: SimulatedEngine, prompt: readonly number[], partition?: string) {
  const { errors } = engine;
  const made = engine.add({ prompt, maxNewTokens: 4, partition });
  await engine.run();
  await engine.prefixes!.settled();
  engine.checkIdle();
  expect(errors.size).toBe(0);
  return made.cachedTokens;
}

test.each(SEEDS)(
  "requests find right pages, restored or not, and none is lost (seed %i)",
  async (seed) => {
    const random = seeded(seed);
    const totals = { ended: 0, retractions: 0, losses: 0, restored: 0, stored: 0, evicted: 0 };
    const stems = [range(0, 48), range(3, 48), range(0, 24).concat(range(5, 24))];
    const storages = new Map<number, MemoryBlobs>();
    // A busy machine may find for a while that computing is sooner than restoring.
    const lacksSome = () => Object.values(totals).some((count) => count <= 3);
    for (let i = 0; i < EPISODES || (lacksSome() && i < 20 * EPISODES); i++) {
      const pageSize = [1, 3, 8, 16][random(4)]!;
      const storage = storages.get(pageSize) ?? new MemoryBlobs();
      storages.set(pageSize, storage);
      const before = new Set(storage.blobs.keys());
      const store = await open(storage, pageSize, 700);
      const engine = new SimulatedEngine({
        ...{ pageSize, store, shared: true, pageCount: Math.ceil(96 / pageSize) },
        ...{ promptsDiffer: random(2) === 0, mixedChunks: random(2) === 0 },
        ...{ hostSlots: [0, 100, 10_000][random(3)]!, ahead: random(3), conservativeness: 0 },
        maxRunningRequests: 6,
        ...(random(6) === 0 && { maxWait: 0 }),
      });
      const { live, counts } = engine;
      let changes = 0;
      const arrive = () => {
        changes += 1;
        const stem = stems[random(3)]!.slice(0, 1 + random(48));
        const prompt = [...stem, ...range(random(4), random(4))].slice(0, 50);
        const partition = random(4) === 0 ? "a" : undefined;
        engine.add({ prompt, maxNewTokens: 1 + random(30), partition });
      };
      const losesDevices = random(4) === 0;
      // From the third on a request alone may be taken for the one that loses them.
      engine.isLostNow = () => losesDevices && counts.losses < 2 && random(60) === 0;
      engine.onAwait = () => {
        if (counts.steps + changes < 120 && live.size < 12 && random(3) === 0) arrive();
        const victim = random(30) === 0 ? [...live][random(live.size)] : undefined;
        if (victim !== undefined) engine.leave(victim);
      };
      arrive();
      await engine.run();
      await engine.prefixes!.settled();
      engine.checkIdle();
      expect([...engine.errors.values()]).toEqual([]);
      expect(engine.problems).toEqual([]);
      expect(store.byteLength).toBeLessThanOrEqual(700);
      const { storedTokens, restoredTokens } = engine.prefixes!.status;
      totals.ended += counts.ended;
      totals.retractions += counts.retractions;
      totals.losses += counts.losses;
      totals.restored += restoredTokens;
      totals.stored += storedTokens;
      totals.evicted += [...before].filter((name) => !storage.blobs.has(name)).length;
    }
    // All of it has happened, and often.
    for (const count of Object.values(totals)) expect(count).toBeGreaterThan(3);
  },
  FULL ? 600_000 : 60_000,
);

test("a prompt finds what another engine has stored; what two prompts share is stored once", async () => {
  const storage = new MemoryBlobs();
  const first = await engineOn(storage);
  for (const tail of [1, 2]) await serve(first, [...range(0, 20), ...range(tail, 3)]);
  expect(first.prefixes!.status.storedTokens).toBe(16);
  const second = await engineOn(storage);
  expect(await serve(second, range(0, 30))).toBe(16);
  expect(await serve(await engineOn(storage), range(0, 30), "salt")).toBe(0);
  expect(await serve(await engineOn(storage, { pageSize: 8 }), range(0, 30))).toBe(0);
  expect(await serve(await engineOn(storage), range(1, 30))).toBe(0);
  expect(storage.calls.write).toBe(2);
});

test("the last token of a prompt is computed, however much is stored", async () => {
  const storage = new MemoryBlobs();
  const first = await engineOn(storage);
  for (let i = 0; i < 2; i++) await serve(first, range(0, 17));
  const second = await engineOn(storage);
  expect(await serve(second, range(0, 16))).toBe(8);
  expect(await serve(second, range(0, 17))).toBe(16);
});

test("a request waits no longer than that is worth, and the next one profits", async () => {
  const storage = new MemoryBlobs();
  const first = await engineOn(storage);
  for (let i = 0; i < 2; i++) await serve(first, range(0, 40));
  const slow = await engineOn(storage, { maxWait: 0.01 });
  let go = () => {};
  const gate = new Promise<void>((resolve) => {
    go = resolve;
  });
  storage.delay = () => gate;
  const made = slow.add({ prompt: range(0, 40), maxNewTokens: 4 });
  await slow.run();
  expect([made.cachedTokens, slow.errors.size]).toEqual([0, 0]);
  slow.checkPages();
  go();
  await slow.prefixes!.close();
  slow.checkIdle();
  storage.delay = async () => {};
  expect(await serve(await engineOn(storage, { maxWait: 5 }), range(0, 40))).toBe(32);
});

test("an engine that ends waits for what it stores, and not for what it restores", async () => {
  const storage = new MemoryBlobs();
  const first = await engineOn(storage);
  for (let i = 0; i < 2; i++) {
    first.add({ prompt: range(0, 40), maxNewTokens: 4 });
    await first.run();
  }
  await first.prefixes!.close();
  first.checkIdle();
  expect(storage.blobs.size).toBe(4);
  const second = await engineOn(storage);
  let go = () => {};
  const gate = new Promise<void>((resolve) => {
    go = resolve;
  });
  storage.delay = () => gate;
  second.add({ prompt: range(0, 40), maxNewTokens: 4 });
  await until(() => expect(storage.calls.read).toBeGreaterThan(0));
  const closed = second.prefixes!.close();
  go();
  await closed;
  expect(second.prefixes!.status.restoredTokens).toBe(0);
  expect(second.pages.borrowerCount).toBe(0);
});

/** Scheduling without an engine: 64 pages of a token, of which a sequence has 38. */
async function busy(isIdle: boolean) {
  const storage = new MemoryBlobs();
  const first = await engineOn(storage);
  for (let i = 0; i < 2; i++) await serve(first, range(0, 50));
  const rows = { maxRows: 64, maxPrefillRows: 64 };
  const { pages, scheduler: s } = scheduler(64, 1, { shared: true, ...rows });
  s.add(sequence(range(9, 38), 10).sequence);
  s.schedule();
  expect(pages.available).toBe(26);
  const transfers = new PrefixTransfers({
    ...{ pages, store: await open(storage, 1), minTokens: 8, maxWait: 60 },
    codec: slowCodec(slotCarrier(new Map(), 1), { lossCount: () => 0, loss: new Error("lost") }),
    ...{ isIdle: () => isIdle, wake: () => (state.isAsked = true) },
  });
  const state = { isAsked: false, isRestored: false };
  transfers
    .restore(sequence(range(0, 50), 1).sequence, () => true)
    .then(() => {
      state.isRestored = true;
    });
  return { pages, transfers, state };
}

test.each([
  [false, 16],
  [true, 24],
])("what is restored leaves room for requests that run (idle: %s)", async (isIdle, restored) => {
  const { pages, transfers, state } = await busy(isIdle);
  while (!state.isRestored) {
    transfers.rest();
    await othersTurn();
  }
  expect(transfers.status.restoredTokens).toBe(restored);
  expect([pages.borrowerCount, pages.available]).toEqual([0, 26]);
});

test("no page changes hands unless the engine is at rest, and none is about to be moved", async () => {
  const { pages, transfers, state } = await busy(false);
  await until(() => expect(state.isAsked).toBe(true));
  await othersTurn();
  expect(pages.borrowerCount).toBe(0);
  // As while a sequence is to get a copy of a page.
  const moving = vi.spyOn(pages, "isMoving", "get").mockReturnValue(true);
  transfers.rest();
  expect(pages.borrowerCount).toBe(0);
  moving.mockRestore();
  transfers.rest();
  expect(pages.borrowerCount).toBe(1);
  await until(() => expect(state.isRestored).toBe(true));
  expect(pages.borrowerCount).toBe(0);
});
