import { expect, test, vi } from "vitest";
import { type Lookahead, MOST_IN_FLIGHT } from "../../../src/engine/schedule/lookahead.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import { StepsInFlight } from "../../../src/engine/step/steps_in_flight.ts";

const step = {} as ScheduledStep;
const none = Promise.resolve([]);
const done = () => ({ tokens: Promise.resolve(new Uint32Array(1)), drafts: none });

/** Steps that may be given to the GPU before the oldest is waited for. */
function room(inFlight: StepsInFlight, lookahead: Lookahead): number {
  let count = 0;
  for (; inFlight.hasRoom(lookahead) && count < 10; count++) inFlight.push(step, done());
  return count;
}

test("one step at a time without overlap, else one ahead of the other", async () => {
  expect(room(new StepsInFlight(false), "far")).toBe(1);
  const inFlight = new StepsInFlight(true);
  expect(room(inFlight, "far")).toBe(2);
  await inFlight.finish();
  expect(room(inFlight, "near")).toBe(1);
  expect(inFlight.hasRoom("none")).toBe(false);
  await inFlight.drain();
  expect(inFlight.isEmpty).toBe(true);
  expect(room(inFlight, "none")).toBe(1);
});

test.each([
  [1, MOST_IN_FLIGHT],
  [50, 2],
])("steps of %d ms that no caller waits for: %d in flight", async (time, most) => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => (now += time));
  const inFlight = new StepsInFlight(true);
  room(inFlight, "near");
  for (let i = 0; i < 20; i++) {
    await inFlight.finish();
    inFlight.push(step, done());
  }
  expect(2 + room(inFlight, "far")).toBe(most);
  expect(inFlight.hasRoom("near")).toBe(false);
  vi.restoreAllMocks();
});

test("a wait between two runs of steps is no step's time", async () => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const inFlight = new StepsInFlight(true);
  for (let i = 0; i < 3; i++) {
    room(inFlight, "near");
    for (; !inFlight.isEmpty; now += 1) await inFlight.finish();
    now += 1000;
  }
  expect(room(inFlight, "far")).toBe(MOST_IN_FLIGHT);
  vi.restoreAllMocks();
});

test("a step's time is from the end of the one before, unless the loop had nothing to do", async () => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const inFlight = new StepsInFlight(true);
  const finish = async (milliseconds: number) => {
    now += milliseconds;
    const { ms, isAlone } = await inFlight.finish();
    return [ms, isAlone];
  };
  for (let i = 0; i < 2; i++) inFlight.push(step, done());
  expect(await finish(1)).toEqual([Number.NaN, true]);
  expect(await finish(5)).toEqual([5, false]);
  // What the host does in between is a part of it.
  now += 2;
  inFlight.push(step, done());
  expect(await finish(4)).toEqual([6, true]);
  inFlight.waited();
  inFlight.push(step, done());
  inFlight.push(step, done());
  expect(await finish(100)).toEqual([Number.NaN, true]);
  expect(await finish(3)).toEqual([3, false]);
  vi.restoreAllMocks();
});

test("a step that fails fails the caller that waits for it, and no other", async () => {
  const inFlight = new StepsInFlight(true);
  inFlight.push(step, { tokens: Promise.reject(new Error("lost")), drafts: none });
  inFlight.push(step, { tokens: Promise.reject(new Error("lost too")), drafts: none });
  await expect(inFlight.finish()).rejects.toThrow("lost");
  await inFlight.drain();
  expect(inFlight.isEmpty).toBe(true);
});
