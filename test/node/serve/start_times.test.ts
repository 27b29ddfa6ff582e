import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { quietReport } from "../../../src/node/serve/start_report.ts";
import { StartTimes } from "../../../src/node/serve/start_times.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("StartTimes tells the whole start and the time from the first weight to the last", () => {
  const seen: string[] = [];
  const progress = vi.fn(({ phase }: { phase: string }) => seen.push(phase));
  const times = new StartTimes();
  const report = times.watch({ ...quietReport({ write: () => {} }), progress });
  vi.advanceTimersByTime(1000);
  for (let done = 0; done <= 4; done++) {
    report.progress({ phase: "weights", done, total: 4 });
    vi.advanceTimersByTime(500);
  }
  report.progress({ phase: "pipelines", done: 1, total: 1 });
  vi.advanceTimersByTime(250);
  times.end();
  vi.advanceTimersByTime(60_000);
  expect(times.seconds).toBeCloseTo(3.75);
  expect(times.weightSeconds).toBeCloseTo(2);
  expect(seen).toEqual(["weights", "weights", "weights", "weights", "weights", "pipelines"]);
});

test("StartTimes adds up the times in which replicas read weights", () => {
  const quiet = quietReport({ write: () => {} });
  const times = new StartTimes();
  const report = times.watch({ ...quiet, ofReplica: () => quiet });
  for (const replica of [0, 1]) {
    for (let done = 0; done <= 2; done++) {
      report.ofReplica!(replica).progress({ phase: "weights", done, total: 2 });
      vi.advanceTimersByTime(500);
    }
    vi.advanceTimersByTime(10_000);
  }
  expect(times.weightSeconds).toBeCloseTo(2);
});

test("StartTimes without weights tells none", () => {
  expect(new StartTimes().weightSeconds).toBe(0);
});
