import { expect, test } from "vitest";
import { chromeTrace, formatProfile, type Profile } from "../src/profile.ts";

const kernel = (name: string, microseconds: number) => ({
  ...{ kernel: name, launches: 2, microseconds },
  ...{ bytes: 3000 * microseconds, flops: 150_000 * microseconds },
  boundMicroseconds: microseconds / 4,
});

const profile: Profile = {
  rates: { copy: 1.234e11, fma: 5.6e13 },
  steps: 3,
  microseconds: 1000,
  kernels: [kernel("linear/linear", 300), kernel("norm/add_norm", 100)],
  launches: [
    {
      ...{ kernel: "norm/add_norm", part: "layer 3", grid: [4, 2, 1] as const },
      ...{ start: 10.5, duration: 2.25, bytes: 64, flops: 128 },
    },
  ],
  host: [{ name: "schedule", start: 1, duration: 2 }],
  exchanges: [],
  omittedSpans: 7,
};

test("a table has a line for each kernel and one for all, in columns", () => {
  expect(formatProfile(profile).split("\n")).toEqual([
    "3 steps; the adapter: copy 123 GB/s, fma 56000 GFLOP/s",
    "kernel         launches   us    share  GB/s  GFLOP/s  of bound",
    "linear/linear         2  300   75.0 %  3.00      150    25.0 %",
    "norm/add_norm         2  100   25.0 %  3.00      150    25.0 %",
    "all                   4  400  100.0 %  3.00      150    25.0 %",
  ]);
});

test("a table of several ranks has their sums, and who took how long at most", () => {
  const other = { kernels: [kernel("norm/add_norm", 160), kernel("moe/route", 40)] };
  const nothing = { launches: [], host: [], exchanges: [], clockError: 0 };
  const otherRanks = [{ rank: 1, ...other, ...nothing }];
  expect(formatProfile({ ...profile, otherRanks }).split("\n")).toEqual([
    "3 steps, 2 ranks together; the adapter: copy 123 GB/s, fma 56000 GFLOP/s",
    "kernel         launches   us  most us      on    share  GB/s  GFLOP/s  of bound",
    "linear/linear         2  300      300  rank 0   50.0 %  3.00      150    25.0 %",
    "norm/add_norm         4  260      160  rank 1   43.3 %  3.00      150    25.0 %",
    "moe/route             2   40       40  rank 1    6.7 %  3.00      150    25.0 %",
    "all                   8  600      400  rank 0  100.0 %  3.00      150    25.0 %",
  ]);
  const replicas = [{ ...otherRanks[0]!, rank: 0, replica: 1 }];
  const [, , , norms] = formatProfile({ ...profile, otherRanks: replicas }).split("\n");
  expect(norms).toMatch(/^norm\/add_norm +4 +260 +160 +DP1 /);
});

test("a table of nothing says so without dividing by it", () => {
  const empty = { ...profile, steps: 0, kernels: [], launches: [], host: [] };
  const [, , all, ...others] = formatProfile(empty).split("\n");
  expect(others).toEqual([]);
  expect(all!.trim()).toBe("all            0   0");
});

test("a trace has launches and host on named tracks of one process, in microseconds", () => {
  expect(JSON.parse(JSON.stringify(chromeTrace(profile)))).toEqual({
    traceEvents: [
      { name: "process_name", ph: "M", ts: 0, pid: 1, tid: 0, args: { name: "wisp" } },
      { name: "thread_name", ph: "M", ts: 0, pid: 1, tid: 1, args: { name: "host" } },
      { name: "thread_name", ph: "M", ts: 0, pid: 1, tid: 2, args: { name: "kernels" } },
      { name: "schedule", ph: "X", pid: 1, tid: 1, ts: 1, dur: 2 },
      {
        ...{ name: "norm/add_norm", ph: "X", pid: 1, tid: 2, ts: 10.5, dur: 2.25 },
        args: { part: "layer 3", grid: "4x2x1", bytes: 64, flops: 128 },
      },
    ],
    displayTimeUnit: "ms",
    otherData: {
      ...{ steps: 3, omittedSpans: 7 },
      ...{ copyBytesPerSecond: 1.234e11, fmaOperationsPerSecond: 5.6e13 },
    },
  });
});

test("a trace of several ranks has a process for each, with a track of exchanges", () => {
  const exchanges = [{ name: "layer 0 o_proj", start: 4, duration: 3 }];
  const other = { kernels: [], launches: profile.launches, host: [], exchanges };
  const trace = chromeTrace({
    ...{ ...profile, exchanges },
    otherRanks: [{ rank: 1, clockError: 12.5, ...other }],
  });
  const named = trace.traceEvents.filter(({ ph }) => ph === "M");
  const ofRank = (pid: number, rank: number) => [
    { name: "process_name", ph: "M", ts: 0, pid, tid: 0, args: { name: `rank ${rank}` } },
    { name: "process_sort_index", ph: "M", ts: 0, pid, tid: 0, args: { sort_index: rank } },
    ...["host", "exchanges", "kernels"].map((name) => {
      const tid = { host: 1, kernels: 2, exchanges: 3 }[name];
      return { name: "thread_name", ph: "M", ts: 0, pid, tid, args: { name } };
    }),
  ];
  expect(named).toEqual([...ofRank(1, 0), ...ofRank(2, 1)]);
  const spans = trace.traceEvents.filter(({ ph }) => ph === "X");
  expect(spans.map(({ name, pid, tid, ts }) => [name, pid, tid, ts])).toEqual([
    ["schedule", 1, 1, 1],
    ["layer 0 o_proj", 1, 3, 4],
    ["norm/add_norm", 1, 2, 10.5],
    ["layer 0 o_proj", 2, 3, 4],
    ["norm/add_norm", 2, 2, 10.5],
  ]);
  expect(trace.otherData.clockErrorMicroseconds).toBe(12.5);
});

test("a trace has what was asked for only", () => {
  const spans = (activities: readonly ("CPU" | "GPU")[]) =>
    chromeTrace(profile, { activities, shapes: false }).traceEvents.filter(({ ph }) => ph === "X");
  expect(spans(["CPU"]).map(({ name }) => name)).toEqual(["schedule"]);
  expect(spans(["GPU"])).toMatchObject([
    { name: "norm/add_norm", args: { part: "layer 3", bytes: 64, flops: 128 } },
  ]);
  expect(spans(["GPU"])[0]!.args).not.toHaveProperty("grid");
});
