import { expect, test } from "vitest";
import { ADJUST_WORDS, writeAdjustment } from "../../kernels/sampling/adjust.ts";
import { count } from "../../kernels/sampling/count.ts";
import { Plan, Recording } from "../../src/gpu/plan.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { whole } from "../../src/gpu/tensor.ts";
import { device, download, upload } from "../support/devices/gpu.ts";

interface Step {
  rows: number;
  repeats: number;
}

/** A plan whose launches count the rows they are given: one for all, and one in a part. */
async function countingPlan() {
  const recorder = new Recorder(device);
  const items = new DataView(new ArrayBuffer(4 * ADJUST_WORDS * 4));
  for (let row = 0; row < 4; row++) {
    const penalties = { slot: row, repetition: 1, frequency: 0, presence: 0 };
    writeAdjustment(items, row, { row, penalties, firstBias: 0, biasCount: 0 });
  }
  const shared = {
    items: whole(upload(new Uint32Array(items.buffer))),
    ids: whole(upload(Uint32Array.of(0, 0, 0, 0))),
    biases: whole(upload(new Uint32Array(2))),
    vocabulary: 1,
  };
  const counts = {
    outer: whole(upload(new Uint32Array(4))),
    inner: whole(upload(new Uint32Array(4))),
  };
  const plan = new Plan<Step>(recorder);
  const outer = count(recorder, { ...shared, counts: counts.outer });
  plan.group("outer");
  plan.add(({ rows }) => outer(rows));
  plan.within(
    { times: ({ repeats }) => repeats, stepOf: ({ rows }) => ({ rows: rows - 1, repeats: 0 }) },
    () => {
      const inner = count(recorder, { ...shared, counts: counts.inner });
      plan.group("inner");
      plan.add(({ rows }) => inner(rows));
    },
  );
  await recorder.pipelines.launchAll();
  const read = async () => ({
    outer: [...new Uint32Array(await download(counts.outer.buffer))],
    inner: [...new Uint32Array(await download(counts.inner.buffer))],
  });
  return { plan, recorder, read };
}

test("a part of a plan runs as often as the step has it, with sizes of its own", async () => {
  const { plan, recorder, read } = await countingPlan();
  const before = await read();
  await plan.run({ rows: 3, repeats: 2 });
  await plan.run({ rows: 4, repeats: 0 });
  const after = await read();
  expect(after.outer.map((value, i) => value - before.outer[i]!)).toEqual([2, 2, 2, 1]);
  expect(after.inner.map((value, i) => value - before.inner[i]!)).toEqual([2, 2, 0, 0]);
  expect(await plan.countLaunches({ rows: 3, repeats: 3 })).toEqual(
    new Map([
      ["outer", 1],
      ["inner", 3],
    ]),
  );
  recorder.destroy();
});

test("a part that is kept is recorded once and replayed as often as the step has it", async () => {
  const { plan, recorder, read } = await countingPlan();
  const before = await read();
  const recording = new Recording();
  const recorded: number[] = [];
  const { keep } = recorder;
  recorder.keep = (record) => {
    recorded.push(1);
    return keep.call(recorder, record);
  };
  await plan.run({ rows: 3, repeats: 3 }, { recording });
  expect(recorded.length).toBe(2);
  await plan.run({ rows: 3, repeats: 2 }, { recording });
  expect(recorded.length).toBe(2);
  const after = await read();
  expect(after.outer.map((value, i) => value - before.outer[i]!)).toEqual([2, 2, 2, 0]);
  expect(after.inner.map((value, i) => value - before.inner[i]!)).toEqual([5, 5, 0, 0]);
  recorder.destroy();
});

/** Lanes with two exchanges each, which end when they are told to, and what happened in what order. */
function lanesPlan() {
  const recorder = new Recorder(device);
  const plan = new Plan<readonly string[]>(recorder);
  const seen: string[] = [];
  const waiting = new Map<string, { resolve(): void; reject(error: Error): void }>();
  plan.sideBySide(
    ["a", "b"].map((lane) => ({
      stepOf: (step) => (step.includes(lane) ? step : undefined),
      build: () => {
        for (const number of [0, 1]) {
          plan.addVarying(() => seen.push(`${lane}${number} is recorded`));
          plan.exchange(`${lane}${number}`, () => {
            seen.push(`${lane}${number} begins`);
            return new Promise((resolve, reject) => {
              waiting.set(`${lane}${number}`, { resolve, reject });
            });
          });
        }
        plan.addVarying(() => seen.push(`${lane} ends`));
      },
    })),
    {
      open: () => seen.push("open"),
      leave: (lane, failure) => seen.push(`leave ${lane}${failure === undefined ? "" : " failed"}`),
    },
  );
  plan.addVarying(() => seen.push("behind"));
  return { plan, seen, waiting };
}

test("one lane is recorded and submitted while another waits for its exchange", async () => {
  const { plan, seen, waiting } = lanesPlan();
  const end = async (name: string) => {
    waiting.get(name)!.resolve();
    for (let i = 0; i < 9; i++) await Promise.resolve();
    return seen.splice(0);
  };
  const run = plan.run(["a", "b"]);
  const begun = ["a0 is recorded", "a0 begins", "b0 is recorded", "b0 begins"];
  expect(seen.splice(0)).toEqual(["open", ...begun]);
  expect(await end("a0")).toEqual(["a1 is recorded", "a1 begins"]);
  expect(await end("a1")).toEqual(["a ends", "leave 0"]);
  expect(await end("b0")).toEqual(["b1 is recorded", "b1 begins"]);
  expect(await end("b1")).toEqual(["b ends", "leave 1", "behind"]);
  await run;
});

test("a step with one of several lanes has it as it comes, and one without any goes on", async () => {
  const { plan, seen, waiting } = lanesPlan();
  await plan.run([]);
  expect(seen.splice(0)).toEqual(["behind"]);
  const run = plan.run(["b"]);
  for (const name of ["b0", "b1"]) {
    waiting.get(name)!.resolve();
    for (let i = 0; i < 9; i++) await Promise.resolve();
  }
  await run;
  const begun = ["b0 is recorded", "b0 begins", "b1 is recorded", "b1 begins"];
  expect(seen).toEqual([...begun, "b ends", "behind"]);
});

test("a step fails with the first error of its lanes, once none of them goes on", async () => {
  const { plan, seen, waiting } = lanesPlan();
  let isOver = false;
  const run = plan.run(["a", "b"]).finally(() => {
    isOver = true;
  });
  run.catch(() => {});
  waiting.get("b0")!.reject(new Error("the first"));
  await new Promise((resolve) => setTimeout(resolve, 1));
  expect([isOver, seen.at(-1)]).toEqual([false, "leave 1 failed"]);
  waiting.get("a0")!.reject(new Error("the second"));
  await expect(run).rejects.toThrow("the first");
  expect(seen).not.toContain("behind");
});
