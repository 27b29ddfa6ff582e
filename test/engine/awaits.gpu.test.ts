/**
 * The real loop, whose requests leave wherever it waits and whose parts fail: nothing is left behind,
 * and every other request has the answer that was to come.
 *
 * @module
 */
import { afterEach, expect, test, vi } from "vitest";
import { PageCodec } from "../../src/cache/page_codec.ts";
import { PagePool } from "../../src/cache/page_pool.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { NewTokenEstimate } from "../../src/engine/schedule/new_token_estimate.ts";
import { ModelRunner } from "../../src/engine/step/model_runner.ts";
import { StepsInFlight } from "../../src/engine/step/steps_in_flight.ts";
import { CapacityError, TransferError } from "../../src/errors.ts";
import { Plan } from "../../src/gpu/plan.ts";
import { fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { openEngine } from "../support/engines/engine.ts";

const LENGTH = 12;
const prompt = (first: number) => Array.from({ length: 9 }, (_, i) => first + 31 * i);
/** Two samples of one prompt and one of another, which do not fit at once. */
const REQUESTS = [prompt(5), prompt(5), prompt(900)].map((tokens, i) => ({
  tokens,
  sampling: { temperature: 0.9, seed: i, maxNewTokens: LENGTH, ignoreEos: true },
}));
const OPTIONS = {
  pageSize: 4,
  maxRunningRequests: 3,
  maxTotalTokens: 44,
  contextLength: 36,
  scheduleConservativeness: 0,
  retractionMemory: 2 ** 26,
};

afterEach(() => {
  vi.restoreAllMocks();
});

/** Calls `onWait` when the loop begins to wait for any of its parts, and when it has. */
function watchAwaits(onWait: () => void): void {
  const watch = <Key extends string>(prototype: Record<Key, unknown>, name: Key) => {
    const original = prototype[name] as (...given: unknown[]) => Promise<unknown>;
    vi.spyOn(prototype as Record<string, () => unknown>, name).mockImplementation(function (
      this: unknown,
      ...given: unknown[]
    ) {
      const result = original.apply(this, given);
      queueMicrotask(onWait);
      return result.then((value) => {
        onWait();
        return value;
      });
    });
  };
  watch(StepsInFlight.prototype, "finish");
  watch(ModelRunner.prototype, "submit");
  watch(Plan.prototype, "run");
  watch(PageCodec.prototype, "readPages");
  watch(PageCodec.prototype, "writePages");
}

interface Outcome {
  readonly tokens: readonly number[];
  readonly error: unknown;
}

interface Running {
  readonly outcome: Promise<Outcome>;
  /** Ends it as its consumer would: by the signal, or by leaving the loop. */
  leave(bySignal: boolean): void;
}

function start(engine: Engine, request: (typeof REQUESTS)[number]): Running {
  const controller = new AbortController();
  const chunks = engine.generate({ ...request, signal: controller.signal });
  const read = async (): Promise<Outcome> => {
    const tokens: number[] = [];
    try {
      for await (const chunk of chunks) tokens.push(...chunk.tokens);
    } catch (error) {
      return { tokens, error };
    }
    return { tokens, error: undefined };
  };
  const leave = (bySignal: boolean) => {
    if (bySignal) controller.abort();
    else void chunks.return!();
  };
  return { outcome: read(), leave };
}

/** All requests from an empty cache. A scheduler that learned from retractions would have none. */
async function run(engine: Engine, onStart: (running: readonly Running[]) => void = () => {}) {
  expect(await engine.flushCache()).toBe(true);
  vi.spyOn(NewTokenEstimate.prototype, "retracted").mockImplementation(() => {});
  const running = REQUESTS.map((request) => start(engine, request));
  onStart(running);
  const outcomes = await Promise.all(running.map(({ outcome }) => outcome));
  expect(engine.status()).toMatchObject({
    healthy: true,
    usedTokens: 0,
    runningRequests: 0,
    queuedRequests: 0,
  });
  return outcomes;
}

// What is tried here is the host's work, the same on every driver.
test.skipIf(smallestCaseOnly)("requests may leave wherever the loop waits", async () => {
  const engine = await openEngine(OPTIONS);
  let waits = 0;
  let leave = () => {};
  let leaveAt = -1;
  watchAwaits(() => {
    waits += 1;
    if (waits === leaveAt) leave();
  });
  const want = await run(engine);
  for (const { tokens, error } of want) expect([tokens.length, error]).toEqual([LENGTH, undefined]);
  expect(engine.status().retractions).toBeGreaterThan(0);
  const all = waits;
  expect(all).toBeGreaterThan(60);
  // An odd distance, so that both ends of a wait and both ways to leave have their turn.
  const distance = fullTest ? 1 : Math.ceil(all / 12) | 1;
  for (let at = 0, turn = 0; at <= all; at += distance, turn++) {
    waits = 0;
    leaveAt = at;
    const victim = turn % REQUESTS.length;
    const outcomes = await run(engine, (running) => {
      leave = () => running[victim]!.leave(at % 2 === 0);
      if (at === 0) leave();
    });
    outcomes.forEach(({ tokens, error }, i) => {
      if (i !== victim) expect({ tokens, error }).toEqual(want[i]);
      else expect(tokens).toEqual(want[i]!.tokens.slice(0, tokens.length));
    });
  }
  await engine.close();
});

test.skipIf(smallestCaseOnly)(
  "pages that cannot be had or moved are one request's problem, or no one request's",
  async () => {
    const engine = await openEngine(OPTIONS);
    const want = await run(engine);
    const spoil = {
      allocate: () => {
        const { allocate } = PagePool.prototype;
        const spy = vi.spyOn(PagePool.prototype, "allocate");
        spy.mockImplementation(function (this: PagePool, count, into) {
          if (spy.mock.calls.length === 5)
            throw new CapacityError("pages of the KV cache", 0, "none is free");
          return allocate.call(this, count, into);
        });
      },
      readPages: () => {
        const spy = vi.spyOn(PageCodec.prototype, "readPages");
        spy.mockRejectedValueOnce(new RangeError("no memory"));
      },
      writePages: () => {
        const spy = vi.spyOn(PageCodec.prototype, "writePages");
        spy.mockRejectedValueOnce(new TransferError("pages", "checksum", "it is wrong"));
      },
    };
    const failed: [keyof typeof spoil, number][] = [
      ["allocate", 1],
      ["readPages", 0],
      ["writePages", 1],
    ];
    for (const [method, count] of failed) {
      spoil[method]();
      const outcomes = await run(engine);
      vi.restoreAllMocks();
      expect([method, outcomes.filter(({ error }) => error !== undefined).length]).toEqual([
        method,
        count,
      ]);
      outcomes.forEach(({ tokens, error }, i) => {
        if (error === undefined) expect(tokens).toEqual(want[i]!.tokens);
      });
    }
    expect(await run(engine)).toEqual(want);
    await engine.close();
  },
);
