import { expect, test, vi } from "vitest";
import type { ScheduledStep } from "../../src/engine/scheduled_step.ts";
import { type Lookahead, MOST_IN_FLIGHT, StepPipeline } from "../../src/engine/step_pipeline.ts";

const step = {} as ScheduledStep;
const done = () => ({ tokens: Promise.resolve(new Uint32Array(1)) });

/** Steps that may be given to the GPU before the oldest is waited for. */
function room(pipeline: StepPipeline, lookahead: Lookahead): number {
  let count = 0;
  for (; pipeline.hasRoom(lookahead) && count < 10; count++) pipeline.push(step, done());
  return count;
}

test("one step at a time without overlap, else one ahead of the other", async () => {
  expect(room(new StepPipeline(false), "far")).toBe(1);
  const pipeline = new StepPipeline(true);
  expect(room(pipeline, "far")).toBe(2);
  await pipeline.finish();
  expect(room(pipeline, "near")).toBe(1);
  expect(pipeline.hasRoom("none")).toBe(false);
  await pipeline.drain();
  expect(pipeline.isEmpty).toBe(true);
  expect(room(pipeline, "none")).toBe(1);
});

test.each([
  [1, MOST_IN_FLIGHT],
  [50, 2],
])("steps of %d ms that nobody waits for: %d in flight", async (time, most) => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => (now += time));
  const pipeline = new StepPipeline(true);
  room(pipeline, "near");
  for (let i = 0; i < 20; i++) {
    await pipeline.finish();
    pipeline.push(step, done());
  }
  expect(2 + room(pipeline, "far")).toBe(most);
  expect(pipeline.hasRoom("near")).toBe(false);
  vi.restoreAllMocks();
});

test("a wait between two runs of steps is nobody's step time", async () => {
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const pipeline = new StepPipeline(true);
  for (let i = 0; i < 3; i++) {
    room(pipeline, "near");
    for (; !pipeline.isEmpty; now += 1) await pipeline.finish();
    now += 1000;
  }
  expect(room(pipeline, "far")).toBe(MOST_IN_FLIGHT);
  vi.restoreAllMocks();
});

test("a step that fails is heard of by whoever waits for it, and by nobody else", async () => {
  const pipeline = new StepPipeline(true);
  pipeline.push(step, { tokens: Promise.reject(new Error("lost")) });
  pipeline.push(step, { tokens: Promise.reject(new Error("lost too")) });
  await expect(pipeline.finish()).rejects.toThrow("lost");
  await pipeline.drain();
  expect(pipeline.isEmpty).toBe(true);
});
