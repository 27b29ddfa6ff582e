/**
 * The engine's loop over a simulated GPU: whatever fails or leaves, and wherever the loop waits, all
 * pages are accounted for afterwards and every other sequence has the answer that was to come.
 *
 * @module
 */
import { describe, expect, test } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import {
  SimulatedEngine,
  type SimulatedOptions,
} from "../../support/simulated/simulated_engine.ts";
import type { FailingMethod } from "../../support/simulated/simulated_faults.ts";

const isFull = process.env.WISP_TEST_FULL === "1";

const letters = (first: number, count: number) =>
  Array.from({ length: count }, (_, i) => first + i);

/** Two equal prompts, one that shares their beginning, one of its own, and one that comes last. */
const REQUESTS = [
  { prompt: letters(2, 13), maxNewTokens: 20 },
  { prompt: letters(2, 13), maxNewTokens: 17 },
  { prompt: [...letters(2, 9), 50, 51], maxNewTokens: 22 },
  { prompt: letters(30, 6), maxNewTokens: 24, partition: "a" },
  { prompt: letters(2, 17), maxNewTokens: 15 },
];

/** Little room: some are retracted, and their pages go to the host and come back. */
const TIGHT = { pageCount: 10, pageSize: 4, conservativeness: 0, hostSlots: 100 };

const variants = ([0, 1, 2] as const).flatMap((ahead) =>
  [true, false].map(
    (shared): SimulatedOptions => ({ ...TIGHT, ahead, shared, mixedChunks: ahead === 1 }),
  ),
);

/** Runs all requests; `spoil` is called wherever the loop waits, with the number of the wait. */
async function run(
  options: SimulatedOptions,
  { spoil = () => {}, prepare = () => {} }: Hooks = {},
): Promise<SimulatedEngine & { readonly waits: number }> {
  const engine = new SimulatedEngine(options);
  const sequences = REQUESTS.map((request) => engine.add(request));
  prepare(engine);
  let waits = 0;
  engine.onAwait = () => {
    waits += 1;
    spoil({ engine, sequences, wait: waits });
  };
  await engine.run();
  engine.checkIdle();
  return Object.assign(engine, { waits });
}

interface Hooks {
  readonly spoil?: (at: {
    readonly engine: SimulatedEngine;
    readonly sequences: readonly ReturnType<SimulatedEngine["add"]>[];
    readonly wait: number;
  }) => void;
  readonly prepare?: (engine: SimulatedEngine) => void;
}

/** Makes the n-th call fail, and counts them. */
function failAt(
  engine: SimulatedEngine,
  method: FailingMethod,
  { call, error }: { readonly call: number; readonly error: Error },
): { readonly calls: number } {
  const counted = { calls: 0 };
  const isNow = () => {
    counted.calls += 1;
    return counted.calls === call;
  };
  engine.failWhen(method, isNow, error);
  return counted;
}

/** How many sequences each of them ends. */
const FAILING: readonly [
  FailingMethod,
  { readonly failed: number; readonly isShared?: boolean },
][] = [
  ["allocate", { failed: 1 }],
  ["readPages", { failed: 0 }],
  ["writePages", { failed: 1 }],
  ["accept", { failed: 1 }],
  ["save", { failed: 1 }],
  ["restore", { failed: 1 }],
  ["insert", { failed: 0, isShared: true }],
  ["match", { failed: 1, isShared: true }],
];

describe.each(variants)("$ahead steps ahead, shared prefixes: $shared", (options) => {
  test("all end, some after they had to make room", async () => {
    const { counts, errors } = await run(options);
    expect([counts.ended, errors.size]).toEqual([REQUESTS.length, 0]);
    expect(counts.retractions).toBeGreaterThan(0);
    expect(counts.restores).toBeGreaterThan(0);
    expect(counts.copies > 0).toBe(options.shared);
  });

  test("a request that leaves at any wait takes nothing along", async () => {
    const { waits } = await run(options);
    expect(waits).toBeGreaterThan(40);
    for (let at = 1; at <= waits; at += isFull ? 1 : 2) {
      // One after another leaves first; in the long run each of them everywhere.
      for (let i = 0; i < (isFull ? REQUESTS.length : 1); i++) {
        const { counts } = await run(options, {
          spoil: ({ engine, sequences, wait }) => {
            const victim = sequences[(at + i) % sequences.length]!;
            if (wait === at && victim.finish === null) engine.leave(victim);
          },
        });
        expect(counts.ended).toBeGreaterThanOrEqual(REQUESTS.length - 1);
      }
    }
  });

  test("all may leave at any wait", async () => {
    const { waits } = await run(options);
    for (let at = 1; at <= waits; at += isFull ? 1 : 5) {
      await run(options, {
        spoil: ({ engine, wait }) => {
          if (wait === at) for (const one of [...engine.live]) engine.leave(one);
        },
      });
    }
  });

  test.each(FAILING)(
    "any %s() may fail: the sequence that it was for fails, or goes on without",
    async (method, { failed, isShared = false }) => {
      const error = new RangeError("no memory");
      let calls = 1;
      for (let call = 1; call <= calls; call++) {
        let counted = { calls: 0 };
        const prepare = (engine: SimulatedEngine) => {
          counted = failAt(engine, method, { call, error });
        };
        const { counts, errors } = await run(options, { prepare });
        // The first call of a run in which nothing else fails says how many there are.
        const hit = counted.calls >= call ? failed : 0;
        expect([call, ...errors.values()]).toEqual([call, ...Array(hit).fill(error)]);
        expect(counts.ended).toBe(REQUESTS.length - hit);
        calls = counted.calls;
      }
      if (isShared && options.shared !== true) expect(calls).toBe(0);
      else expect(calls).toBeGreaterThan(1);
    },
  );

  test.each(["readPages", "writePages"] as const)(
    "a device that is lost during %s() ends all requests",
    async (method) => {
      const lost = new DeviceError("the device is lost");
      const engine = new SimulatedEngine(options);
      for (const request of REQUESTS) engine.add(request);
      failAt(engine, method, { call: 1, error: lost });
      await expect(engine.run()).rejects.toBe(lost);
      engine.checkIdle();
      expect(engine.errors.size + engine.counts.ended).toBe(REQUESTS.length);
      expect(engine.errors.size).toBeGreaterThan(0);
    },
  );
});
