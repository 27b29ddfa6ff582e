import { describe, expect, test } from "vitest";
import { PagePool } from "../../../src/cache/page_pool.ts";
import { LiveSequences } from "../../../src/engine/live_sequences.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { SequencePages } from "../../../src/engine/schedule/sequence_pages.ts";
import { MOST_OVERTAKEN, WaitingQueue } from "../../../src/engine/schedule/waiting_queue.ts";
import { CapacityError } from "../../../src/errors.ts";
import { scheduler, sequence } from "../../support/engines/sequences.ts";
import { seeded } from "../../support/seeded.ts";

const isFull = process.env.WISP_TEST_FULL === "1";
const pages = new SequencePages(new PagePool(8, 1));

/** What the queue is to do, in the plainest way. */
class PlainQueue {
  waiting: { readonly one: Sequence; readonly wasRunning: boolean; overtaken: number }[] = [];

  next(): Sequence | undefined {
    const [first] = this.waiting;
    if (first === undefined || first.wasRunning) return first?.one;
    const due = this.waiting.find(({ overtaken }) => overtaken >= MOST_OVERTAKEN);
    if (due !== undefined) return due.one;
    return this.waiting.toSorted((a, b) => b.one.priority - a.one.priority)[0]!.one;
  }

  delete(one: Sequence): void {
    this.waiting = this.waiting.filter((other) => other.one !== one);
  }

  admit(one: Sequence): void {
    this.delete(one);
    for (const other of this.waiting) {
      if (!other.wasRunning && other.one.arrival < one.arrival) other.overtaken += 1;
    }
  }
}

describe("WaitingQueue", () => {
  test.each([1, 2, 3])("lets sequences go as a plain list would (seed %i)", (seed) => {
    const random = seeded(seed);
    const queue = new WaitingQueue("fcfs", pages);
    const plain = new PlainQueue();
    const gone: Sequence[] = [];
    let turns = 0;
    for (let i = 0; i < (isFull ? 50_000 : 2000); i++) {
      const kind = random();
      if (kind < 0.4) {
        const priority = Math.floor(random() * 3);
        const { sequence: one } = sequence(1, 1, {}, { priority });
        queue.add(one);
        plain.waiting.push({ one, wasRunning: false, overtaken: 0 });
      } else if (kind < 0.45 && plain.waiting.length > 0) {
        const { one } = plain.waiting[Math.floor(random() * plain.waiting.length)]!;
        queue.delete(one);
        plain.delete(one);
      } else if (kind < 0.47 && gone.length > 0) {
        const one = gone.pop()!;
        queue.putBack(one);
        plain.waiting.unshift({ one, wasRunning: true, overtaken: 0 });
      } else {
        const next = queue.inOrder().next().value ?? undefined;
        expect(next).toBe(plain.next());
        if (next === undefined) continue;
        queue.admit(next);
        plain.admit(next);
        gone.push(next);
        turns += 1;
      }
      expect(queue.size).toBe(plain.waiting.length);
    }
    expect(turns).toBeGreaterThan(500);
    expect([...queue.values()]).toHaveLength(queue.size);
  });

  test.each(["fcfs", "lof", "random"] as const)(
    "to come, leave and go costs few looks at other sequences under %s, however many wait",
    (policy) => {
      let looks = 0;
      const made = Array.from({ length: 1024 }, (_, i) => {
        const { sequence: one } = sequence(1, 1 + (i % 7));
        const priority = i % 5;
        // What is compared of a sequence is counted; the queue has no other way to look at it.
        return Object.defineProperty(one, "priority", {
          get: () => {
            looks += 1;
            return priority;
          },
        });
      });
      const { scheduler: s } = scheduler(8, 1, { policy, maxQueuedRequests: 5000 });
      for (const one of made) s.add(one);
      for (const [i, one] of made.entries()) if (i % 3 > 0) s.remove(one);
      while (s.hasWork) {
        const step = s.schedule()!;
        s.commit(step, new Uint32Array(step.sampled.length).fill(9));
      }
      // Two of each comparison, two comparisons on each of 10 levels, for three operations.
      expect(looks).toBeLessThan(2 * 2 * 10 * 3 * made.length);
    },
  );
});

test("LiveSequences counts those that are not queued yet, and finds them by their request", () => {
  const live = new LiveSequences({ maxRunningRequests: 1, maxQueuedRequests: 2 });
  const made = [1, 2, 3].map(() => sequence(1, 1).sequence);
  for (const one of made) {
    live.requireRoom(0);
    live.add(one);
  }
  expect(() => live.requireRoom(0)).toThrow(CapacityError);
  expect([...live.of("r")]).toEqual(made);
  expect([...live.of("another")]).toEqual([]);
  for (const one of live.of("r")) live.delete(one);
  expect([live.size, [...live.of("r")].length]).toEqual([0, 0]);
  live.requireRoom(2);
  expect(() => live.requireRoom(3)).toThrow(CapacityError);
});
