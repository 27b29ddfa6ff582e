import { expect, test } from "vitest";
import { TextQueue, type WaitingJob } from "../../../src/engine/text/text_queue.ts";
import { MAX_SIZE, textSize } from "../../../src/engine/text/text_size.ts";
import { CapacityError } from "../../../src/errors.ts";
import { seeded } from "../../support/seeded.ts";

function job(size: number, isUrgent = false): WaitingJob {
  const question = { type: "run", job: { type: "encode", text: "" } } as const;
  return { question, size, isUrgent, resolve: () => {}, reject: () => {} };
}

test("the queue of texts gives out urgent ones first, and has room for what it says", () => {
  const random = seeded(22);
  const limit = 20_000;
  const queue = new TextQueue(limit);
  let model: WaitingJob[] = [];
  const waiting = () =>
    model.reduce((sum, one) => sum + (one.isUrgent ? 0 : Math.max(one.size, 1024)), 0);
  for (let i = 0; i < 20_000; i++) {
    const draw = random();
    if (draw < 0.5) {
      const one = job(Math.floor(random() * 6000), random() < 0.2);
      const total = waiting();
      const fits = one.isUrgent || total === 0 || total + Math.max(one.size, 1024) <= limit;
      if (fits) {
        queue.add(one);
        model.push(one);
      } else expect(() => queue.add(one)).toThrow(CapacityError);
    } else if (draw < 0.7) {
      const one = model[Math.floor(random() * model.length)] ?? job(1);
      expect(queue.remove(one)).toBe(model.includes(one));
      model = model.filter((other) => other !== one);
    } else {
      const expected = model.find(({ isUrgent }) => isUrgent) ?? model[0];
      expect(queue.take()).toBe(expected);
      model = model.filter((other) => other !== expected);
    }
    expect(queue.length).toBe(model.length);
  }
});

test("the size of a job is known without walking through all of it", () => {
  const size = (value: unknown) =>
    textSize({ type: "prompt", request: { messages: [], templateVariables: { value } } });
  expect(size("x".repeat(1000))).toBeGreaterThanOrEqual(1000);
  expect(size("x".repeat(1000))).toBeLessThan(1200);
  const deep: unknown = JSON.parse("[".repeat(10_000) + "]".repeat(10_000));
  expect(size(deep)).toBeGreaterThan(10_000);
  // Every item is looked at but once, and no more than count.
  let looked = 0;
  const item = {
    get a() {
      looked += 1;
      return "";
    },
  };
  expect(size(Array.from({ length: 500_000 }, () => item))).toBeGreaterThanOrEqual(MAX_SIZE);
  expect(looked).toBeLessThan(70_000);
});
