/**
 * What the demo's drawings are made of, without a page.
 *
 * @module
 */
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { AnswerClock } from "../../../examples/browser/chat/stats.ts";
import { fileName } from "../../../examples/browser/device/report_view.ts";
import {
  decadesOf,
  kernelPoints,
  logShare,
  roof,
} from "../../../examples/browser/device/roofline.ts";
import { grainOf } from "../../../examples/browser/device/time_kernels.ts";
import {
  count,
  duration,
  percent,
  powerOfTen,
  rate,
  rounded,
} from "../../../examples/browser/drawing/figures.ts";
import { cacheParts, memoryParts } from "../../../examples/browser/panel/memory_section.ts";
import type { AnswerStats } from "../../../examples/browser/panel/panel_source.ts";
import { averageRate, RateMeter } from "../../../examples/browser/panel/rate_meter.ts";
import { layOutTree } from "../../../examples/browser/panel/tree_layout.ts";
import type { CacheTree } from "../../../src/index.ts";

describe("the tree of prefixes", () => {
  const node = (parent: number, tokens: number) => ({
    ...{ parent, tokens, partition: 0, pages: tokens, holders: 0, label: "" },
  });
  // Two prompts that share 5 tokens, and one of their own; the last used comes first.
  const tree: CacheTree = {
    ...{ pageSize: 1, isComplete: true },
    nodes: [node(-1, 5), node(0, 3), node(-1, 20), node(0, 4), node(1, 2)],
  };

  test("has each node below its parent, from where that ends", () => {
    const { rows, width, hidden } = layOutTree(tree, 10);
    expect(rows.map(({ start, end, parentRow }) => [start, end, parentRow])).toEqual([
      ...[
        [0, 5, undefined],
        [5, 8, 0],
        [8, 10, 1],
        [5, 9, 0],
      ],
      [0, 20, undefined],
    ]);
    expect([width, hidden]).toEqual([20, 0]);
  });

  test("leaves out what was used the longest ago, and counts it", () => {
    const { rows, width, hidden } = layOutTree(tree, 2);
    expect(rows.map(({ end }) => end)).toEqual([5, 8]);
    expect([width, hidden]).toEqual([8, 3]);
  });

  test("of nothing is nothing", () => {
    expect(layOutTree({ pageSize: 1, nodes: [], isComplete: true }, 10)).toEqual({
      ...{ rows: [], width: 0, hidden: 0 },
    });
  });
});

describe("the rate of tokens", () => {
  const stats = (completionTokens: number, more: Partial<AnswerStats> = {}): AnswerStats => ({
    ...{ requestId: "a", promptTokens: 9, cachedTokens: 0, completionTokens },
    ...{ sentAt: 0, firstTokenAt: 1000, isOver: false, ...more },
  });

  test("is told of stretches of a quarter of a second, and of the rest at the end", () => {
    const meter = new RateMeter();
    meter.add(stats(0, { firstTokenAt: undefined }), 500);
    meter.add(stats(1), 1000);
    meter.add(stats(6), 1100);
    meter.add(stats(11), 1250);
    expect(meter.rates).toEqual([40]);
    meter.add(stats(12, { isOver: true }), 1350);
    expect(meter.rates).toEqual([40, 10]);
  });

  test("begins anew with each answer, without the time in between", () => {
    const meter = new RateMeter();
    meter.add(stats(1), 1000);
    meter.add(stats(11), 1500);
    meter.add(stats(1, { requestId: "b", firstTokenAt: 9000 }), 9000);
    meter.add(stats(6, { requestId: "b", firstTokenAt: 9000 }), 9500);
    expect(meter.rates).toEqual([20, 10]);
  });

  test("of a whole answer leaves the first token out, whose time is another", () => {
    expect(averageRate(stats(21), 3000)).toBe(10);
    expect(averageRate(stats(1), 3000)).toBeUndefined();
    expect(averageRate(stats(0, { firstTokenAt: undefined }), 3000)).toBeUndefined();
  });
});

describe("the speed of an answer", () => {
  const round = { requestId: "r", promptTokens: 4, cachedTokens: 0 };
  const timed = (milliseconds: number) => {
    const clock = new AnswerClock();
    clock.take({ ...round, completionTokens: 1 });
    vi.advanceTimersByTime(milliseconds);
    clock.take({ ...round, completionTokens: 3 });
    return clock.stats.tokensPerSecond;
  };
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["performance"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test("is of the tokens behind the first", () => expect(timed(100)).toBeCloseTo(20, 6));

  test("is not told of tokens that come at once", () => expect(timed(1)).toBeUndefined());
});

describe("memory", () => {
  test("adds up to the budget, and the cache to its tokens", () => {
    const plan = {
      ...{ deviceMemory: 1000, budget: 900, weightBytes: 500, workspaceBytes: 0 },
      ...{ prefillCapacity: 0, cacheBytes: 300, cacheTokens: 30, bytesPerToken: 10 },
    };
    const parts = memoryParts(plan).map(({ name, size }) => [name, size]);
    expect(parts).toEqual([
      ["weights", 500],
      ["KV cache", 300],
      ["free", 100],
    ]);
    const status = { totalTokens: 30, usedTokens: 12, cachedTokens: 8 };
    const cache = cacheParts(status as Parameters<typeof cacheParts>[0]);
    expect(cache.map(({ size }) => size)).toEqual([12, 8, 10]);
  });
});

describe("the roofline", () => {
  const kernel = (microseconds: number, bytes: number, flops: number) => ({
    ...{ kernel: "k", launches: 2, microseconds, bytes, flops, boundMicroseconds: 5 },
  });

  test("is what memory feeds up to the ridge, and what arithmetic does from there", () => {
    const rates = { copy: 100, fma: 1000 };
    expect([1, 5, 10, 50].map((intensity) => roof(rates, intensity))).toEqual([
      ...[100, 500, 1000, 1000],
    ]);
  });

  test("has a point for each kernel, by its own phase's time", () => {
    const phases = [
      { phase: "prefill" as const, steps: 1, kernels: [kernel(30, 60, 120), kernel(10, 60, 0)] },
      { phase: "decode" as const, steps: 1, kernels: [kernel(0, 60, 120)] },
    ];
    const points = kernelPoints({ phases });
    expect(points).toMatchObject([
      { phase: "prefill", share: 0.75, moved: 2e6, achieved: 4e6, intensity: 2, ofBound: 1 / 6 },
      { phase: "prefill", share: 0.25, moved: 6e6, achieved: 0, intensity: 0, ofBound: 0.5 },
      { phase: "decode", share: 0, moved: undefined, achieved: undefined, ofBound: undefined },
    ]);
  });

  test("has axes of whole decades", () => {
    expect(decadesOf([0.3, 25])).toEqual({ from: -1, to: 2 });
    expect(decadesOf([100])).toEqual({ from: 2, to: 3 });
    expect(logShare({ from: -1, to: 2 }, 1)).toBeCloseTo(1 / 3, 12);
    expect(logShare({ from: -1, to: 2 }, 100)).toBe(1);
  });
});

test("a clock's grain is what all times are multiples of", () => {
  expect(grainOf([196.608, 65.536, 0, 131.072])).toBe(65.536);
  expect(grainOf([0.003, 0.007])).toBe(0.001);
  expect(grainOf([])).toBe(0);
});

test("numbers have three digits and a unit", () => {
  expect([0, 0.001234, 1.234, 12.34, 123.4, 9876].map(rounded)).toEqual([
    ...["0", "0.0012", "1.23", "12.3", "123", "9876"],
  ]);
  expect(rate(1.2e11, "B/s")).toBe("120 GB/s");
  expect(rate(0.5, "B/s")).toBe("0.500 B/s");
  expect([1e10, 1e3, 0.1].map(powerOfTen)).toEqual(["10 G", "1 k", "0.1"]);
  expect([2.5, 0.0025, 0.0000025].map(duration)).toEqual(["2.50 s", "2.50 ms", "2.50 µs"]);
  expect([0, 0.0123, 0.456, 1].map(percent)).toEqual(["0 %", "1.2 %", "46 %", "100 %"]);
  expect(count(12345.4)).toBe("12,345");
});

test("a report's file is named after the GPU and the day", () => {
  const named = (vendor: string, architecture: string) =>
    fileName({ adapter: { vendor, architecture }, date: "2026-11-22T04:00:00Z" } as Parameters<
      typeof fileName
    >[0]);
  expect(named("apple", "metal-3")).toBe("wisp-apple-metal-3-2026-11-22.json");
  expect(named("", "")).toBe("wisp-gpu-2026-11-22.json");
});
