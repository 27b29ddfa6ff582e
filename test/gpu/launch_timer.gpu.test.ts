import { afterEach, expect, test, vi } from "vitest";
import { multiplyAdd } from "../../kernels/probe/multiply_add.ts";
import { UnsupportedError } from "../../src/errors.ts";
import { LaunchTimer, type TimedSubmit } from "../../src/gpu/launch_timer.ts";
import { Plan, Recording } from "../../src/gpu/plan.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor } from "../../src/gpu/tensor.ts";
import { device, download } from "../support/devices/gpu.ts";

afterEach(() => vi.restoreAllMocks());

async function setUp() {
  const submits: TimedSubmit[] = [];
  const timer = new LaunchTimer(device, (submit) => submits.push(submit));
  const recorder = new Recorder(device, { maxLaunches: 8 });
  const bind = (steps: number) => {
    const out = allocateTensor(device, 2 * 64 * 16, "chains");
    return { out, record: multiplyAdd(recorder, { out, steps, factor: 1, increment: 0.5 }) };
  };
  const [one, other] = [bind(4), bind(8)];
  await recorder.pipelines.ready();
  const end = () => {
    for (const { out } of [one, other]) out.buffer.destroy();
    recorder.destroy();
    timer.destroy();
  };
  return { submits, timer, recorder, one, other, end };
}

test("times every launch, those beyond one set of queries too, and all of them run", async () => {
  const { submits, timer, recorder, one, other, end } = await setUp();
  recorder.timer = timer;
  const launches = 1030;
  for (let i = 0; i < launches - 1; i++) one.record(1);
  recorder.copy(one.out, other.out, 16);
  other.record(2);
  recorder.submit();
  await timer.settled();
  expect(submits).toHaveLength(1);
  const { launches: timed, submitted, returned } = submits[0]!;
  expect(returned).toBeGreaterThanOrEqual(submitted);
  expect(timed).toHaveLength(launches);
  expect(timed[0]).toMatchObject({
    kernel: "probe/multiply_add",
    grid: [1, 1, 1],
    cost: { bytes: 64 * 16, flops: 64 * 32 * 4 },
  });
  expect(timed.at(-1)).toMatchObject({ grid: [2, 1, 1], cost: { flops: 2 * 64 * 32 * 8 } });
  expect(timed.every(({ begin, end }) => begin > 0n && end >= begin)).toBe(true);
  const got = new Float32Array(await download(other.out.buffer));
  expect(got.every((value) => value === 4 * 8 * 0.5 + 6)).toBe(true);
  end();
});

test("submits that overlap are told in order, and share what was allocated", async () => {
  const { submits, timer, recorder, one, other, end } = await setUp();
  const sets = vi.spyOn(device, "createQuerySet");
  recorder.timer = timer;
  for (let round = 0; round < 3; round++) {
    one.record(1);
    recorder.submit();
    other.record(2);
    recorder.submit();
    await timer.settled();
  }
  const grids = submits.map(({ launches }) => launches[0]!.grid[0]);
  expect(grids).toEqual([1, 2, 1, 2, 1, 2]);
  expect(sets).toHaveBeenCalledTimes(2);
  end();
});

test("replayed launches are timed, with their part of the model and their cost", async () => {
  const { submits, timer, recorder, one, end } = await setUp();
  const plan = new Plan<object>(recorder);
  plan.group("layer 0");
  plan.add(() => one.record(2));
  plan.group("head");
  plan.addVarying(() => one.record(1));
  const recording = new Recording();
  await plan.run({}, { recording });
  recorder.timer = timer;
  await plan.run({}, { recording });
  recorder.timer = undefined;
  await plan.run({}, { recording });
  await timer.settled();
  expect(submits).toHaveLength(1);
  expect(submits[0]!.launches).toMatchObject([
    { part: "layer 0", grid: [2, 1, 1], cost: { flops: 2 * 64 * 32 * 4 } },
    { part: "head", grid: [1, 1, 1], cost: { flops: 64 * 32 * 4 } },
  ]);
  end();
});

test("is not put in or taken out while launches are recorded", async () => {
  const { timer, recorder, one, end } = await setUp();
  one.record(1);
  expect(() => {
    recorder.timer = timer;
  }).toThrow("launches are being recorded");
  recorder.submit();
  recorder.timer = timer;
  end();
});

test("devices without timestamps are refused by the feature's name", () => {
  const blind = { features: new Set() } as unknown as GPUDevice;
  const make = () => new LaunchTimer(blind, () => {});
  expect(make).toThrow(UnsupportedError);
  expect(make).toThrow(
    "Cannot use a profile: the device does not have the feature timestamp-query",
  );
});
