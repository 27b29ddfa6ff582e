/** What several replicas answer together, over scripted ones: their caches, records and profiles. */
import { describe, expect, test } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import type { ExpertRecord } from "../../../src/expert_record.ts";
import { ReplicatedEngine } from "../../../src/parallel/replicas/replicated_engine.ts";
import type { CacheTreeNode } from "../../../src/prefix_cache.ts";
import { chromeTrace, formatProfile, type Profile } from "../../../src/profile.ts";
import { openGate, ToldEngine } from "../../support/engines/told_engine.ts";

test("the cache is drawn as one, nothing shared between replicas", async () => {
  const node = (parent: number, partition: number): CacheTreeNode => {
    return { parent, partition, tokens: 3, pages: 3, holders: 0, label: "" };
  };
  const trees = [
    { pageSize: 1, nodes: [node(-1, 0), node(0, 0), node(-1, 1)], isComplete: true },
    { pageSize: 1, nodes: [node(-1, 0), node(0, 0)], isComplete: true },
  ];
  const asked: unknown[] = [];
  const engines = trees.map((tree) =>
    Object.assign(new ToldEngine(), {
      cacheTree: async (options: unknown) => {
        asked.push(options);
        return tree;
      },
    }),
  );
  const engine = new ReplicatedEngine(engines);
  const all = await engine.cacheTree!();
  expect(all.nodes.map(({ parent, partition }) => [parent, partition])).toEqual([
    ...[
      [-1, 0],
      [0, 0],
      [-1, 1],
      [-1, 2],
      [3, 2],
    ],
  ]);
  expect(all.isComplete).toBe(true);
  const few = await engine.cacheTree!({ maxNodes: 3 });
  expect([few.nodes.length, few.isComplete]).toEqual([3, false]);
  expect(asked).toEqual([128, 128, 2, 2].map((maxNodes) => ({ maxNodes })));
});

test("records of experts are added up, evenness by the steps that it is of", async () => {
  const told = {
    mode: "per_pass",
    isRecording: true,
    placement: [[0, 1]],
    records: [{ forwardPass: 4, slotCounts: [Uint32Array.of(1, 2)] }],
  } as const;
  const records: ExpertRecord[] = [
    { ...told, passes: 3, logicalCount: [[1, 2]], balancedness: 0.5 },
    { ...told, passes: 1, logicalCount: [[10, 20]], balancedness: 0.9 },
  ];
  const engines = records.map((record) =>
    Object.assign(new ToldEngine(), { recordExperts: async () => record }),
  );
  const joined = await new ReplicatedEngine(engines).recordExperts!("dump");
  expect(joined).toMatchObject({ isRecording: true, passes: 4, logicalCount: [[11, 22]] });
  expect(joined.balancedness).toBeCloseTo(0.6);
  expect(joined).toMatchObject({ mode: "per_pass", placement: [[0, 1]] });
  expect(joined.records).toEqual([...told.records, ...told.records]);
});

describe("a profile", () => {
  const profile = (kernel: string, start: number): Profile => {
    const sums = { launches: 1, microseconds: 5, bytes: 8, flops: 2, boundMicroseconds: 1 };
    const span = { start, duration: 5 };
    const grid = [1, 1, 1] as const;
    return {
      rates: { copy: 1, fma: 1 },
      steps: 2,
      microseconds: 50,
      kernels: [
        { kernel, ...sums },
        { kernel: "both", ...sums, microseconds: 1 },
      ],
      launches: [{ kernel, part: "layer 0", grid, bytes: 8, flops: 2, ...span }],
      host: [{ name: "schedule", ...span }],
      exchanges: [],
      omittedSpans: 1,
    };
  };

  test("is of all that live, and begins once each is ready", async () => {
    const engines = [new ToldEngine(), new ToldEngine(), new ToldEngine()];
    const gates = engines.map(() => openGate());
    const able = engines.map((one, i) =>
      Object.assign(one, {
        profile: async (work: () => Promise<unknown>) => {
          await gates[i]!.promise;
          await work();
          return profile(`kernel ${i}`, 10);
        },
      }),
    );
    const engine = new ReplicatedEngine(able);
    engines[1]!.told = { healthy: false };
    let begun = 0;
    const taken = engine.profile!(async () => {
      begun += 1;
    });
    gates[2]!.resolve();
    await new Promise((resolve) => setTimeout(resolve, 5));
    expect(begun).toBe(0);
    gates[0]!.resolve();
    const { kernels, launches, steps, omittedSpans, ...joined } = await taken;
    expect([begun, steps, omittedSpans]).toEqual([1, 4, 2]);
    const [other] = joined.otherRanks!;
    const names = [kernels, other!.kernels].map((own) => own.map(({ kernel }) => kernel));
    expect(names).toEqual([
      ["kernel 0", "both"],
      ["kernel 2", "both"],
    ]);
    const lines = formatProfile({ kernels, launches, steps, omittedSpans, ...joined }).split("\n");
    const firsts = lines.slice(2).map((text) => text.split(/ {2,}/).slice(0, 5));
    expect(firsts).toEqual([
      ["kernel 0", "1", "5", "5", "DP0"],
      ["kernel 2", "1", "5", "5", "DP2"],
      ["both", "2", "2", "1", "DP0"],
      ["all", "4", "12", "6", "DP0"],
    ]);
    // The first replica was ready later.
    expect([joined.replica, other!.replica, joined.otherRanks!.length]).toEqual([0, 2, 1]);
    expect(launches[0]!.start - other!.launches[0]!.start).toBeGreaterThan(4000);
    expect(joined.microseconds).toBeGreaterThan(4000);
    const trace = chromeTrace({ kernels, launches, steps, omittedSpans, ...joined });
    const named = trace.traceEvents.filter(({ name }) => name === "process_name");
    expect(named.map(({ pid, args }) => [pid, args!.name])).toEqual([
      [1, "DP0"],
      [2, "DP2"],
    ]);
    expect(trace.traceEvents.find(({ name }) => name === "kernel 2")!.pid).toBe(2);
  });

  test("fails as a whole where one cannot be taken", async () => {
    const engines = [new ToldEngine(), new ToldEngine()];
    const able = engines.map((one, i) =>
      Object.assign(one, {
        profile: async (work: () => Promise<unknown>) => {
          if (i === 1) throw new DeviceError("Cannot take times");
          await work();
          return profile("kernel", 0);
        },
      }),
    );
    let begun = 0;
    const taken = new ReplicatedEngine(able).profile!(async () => {
      begun += 1;
    });
    await expect(taken).rejects.toThrow("Cannot take times");
    expect(begun).toBe(0);
  });
});
