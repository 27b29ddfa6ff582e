import { describe, expect, test } from "vitest";
import {
  requirePriority,
  SCHEDULE_POLICIES,
  type SchedulePolicy,
} from "../../../src/engine/schedule/schedule_policy.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { SequencePages } from "../../../src/engine/schedule/sequence_pages.ts";
import { MOST_OVERTAKEN, WaitingQueue } from "../../../src/engine/schedule/waiting_queue.ts";
import { InvalidRequestError } from "../../../src/errors.ts";
import { scheduler, sequence } from "../../support/engines/sequences.ts";

type Scheduled = ReturnType<typeof scheduler>;

/** Puts a prompt of `length` tokens, and its answer of one, into the cache. */
function cache({ scheduler: s }: Scheduled, length: number, first = 2): void {
  s.add(sequence(length, 1, {}, { first }).sequence);
  while (s.hasWork) {
    const step = s.schedule()!;
    s.commit(step, new Uint32Array(step.sampled.length).fill(9));
  }
}

/** In which order `waiting` start, when one runs at a time. */
function starts({ scheduler: s }: Scheduled, waiting: readonly Sequence[]): number[] {
  for (const one of waiting) s.add(one);
  const started = new Set<Sequence>();
  while (s.hasWork) {
    const step = s.schedule()!;
    for (const { sequence: one } of step.progress) started.add(one);
    s.commit(step, new Uint32Array(step.sampled.length).fill(9));
  }
  return [...started].map((one) => waiting.indexOf(one));
}

/** In which order a queue lets them go. */
function inOrder(
  policy: SchedulePolicy,
  waiting: readonly Sequence[],
  pages: SequencePages,
): readonly Sequence[] {
  const queue = new WaitingQueue(policy, pages);
  for (const each of waiting) {
    if (each.retractions > 0) queue.putBack(each);
    else queue.add(each);
  }
  const left: Sequence[] = [];
  for (const each of queue.inOrder()) {
    left.push(each);
    queue.admit(each);
  }
  return left;
}

const one = (policy: SchedulePolicy, shared = true) =>
  scheduler(400, 1, { policy, shared, maxRunningRequests: 1 });

describe("dfs-weight", () => {
  const made = (length: number, first = 2) => sequence(length, 1, {}, { first }).sequence;

  test("heavier subtrees first, deeper before shallower, those without a prefix last", () => {
    const s = one("dfs-weight");
    // Three branches: at 2 to 41, at 2 to 11 and on to others, and at 30 to 49.
    cache(s, 40);
    cache(s, 20, 30);
    const waiting = [
      made(30, 50), // no prefix
      made(25, 30), // one in the branch of 30
      made(20), // three in the branch of 2, 19 tokens deep
      made(50), // 40 tokens deep
      made(30), // 29 tokens deep
    ];
    const order = inOrder("dfs-weight", waiting, s.pages);
    expect(order.map((each) => waiting.indexOf(each))).toEqual([3, 4, 2, 1, 0]);
  });

  test("of equal branches the one that was asked for first, and all of it", () => {
    const s = one("dfs-weight");
    cache(s, 20);
    cache(s, 20, 30);
    const waiting = [made(25, 30), made(25), made(26, 30), made(26)];
    const order = inOrder("dfs-weight", waiting, s.pages);
    expect(order.map((each) => waiting.indexOf(each))).toEqual([0, 2, 1, 3]);
    const more = [...waiting, made(27)];
    const heavier = inOrder("dfs-weight", more, s.pages);
    expect(heavier.map((each) => more.indexOf(each))).toEqual([1, 3, 4, 0, 2]);
  });

  test("partitions are branches of their own", () => {
    const s = one("dfs-weight");
    cache(s, 20);
    const other = () => sequence(25, 1, {}, { partition: "b" }).sequence;
    const waiting = [other(), made(25), other()];
    const order = inOrder("dfs-weight", waiting, s.pages);
    expect(order.map((each) => waiting.indexOf(each))).toEqual([1, 0, 2]);
  });
});

test.each(["lpm", "dfs-weight"] as const)("%s is fcfs without the prefix cache", (policy) => {
  const waiting = [20, 30, 10].map((length) => sequence(length, 1).sequence);
  expect(starts(one(policy, false), waiting)).toEqual([0, 1, 2]);
});

test.each(["lpm", "dfs-weight"] as const)("%s is fcfs where too many wait", (policy) => {
  const s = one(policy);
  cache(s, 40);
  const waiting = Array.from({ length: 129 }, (_, i) => sequence(1 + (i % 30), 1).sequence);
  expect(inOrder(policy, waiting, s.pages)).toEqual(waiting);
});

test.each(["lpm", "dfs-weight"] as const)("%s leaves the order of eviction as it is", (policy) => {
  const s = one(policy);
  cache(s, 20);
  cache(s, 20, 30);
  const waiting = [sequence(30, 1).sequence, sequence(10, 1).sequence];
  inOrder(policy, waiting, s.pages);
  // The first prompt was used before the second one, and still counts as such.
  s.pages.pool.allocate(s.pages.pool.freeCount);
  expect(s.pages.grow(sequence(1, 1).sequence, 20)).toBe(true);
  expect(s.pages.cachedPrefix(sequence(20, 1).sequence)).toBe(0);
  expect(s.pages.cachedPrefix(sequence(20, 1, {}, { first: 30 }).sequence)).toBe(19);
});

describe("priority", () => {
  const made = (priority: number | undefined, length = 10) =>
    sequence(length, 1, {}, { priority }).sequence;

  test("the higher one first, equal ones as they came", () => {
    const waiting = [made(-1), made(undefined), made(5), made(0), made(5)];
    expect(starts(one("fcfs"), waiting)).toEqual([2, 4, 1, 3, 0]);
  });

  test("the policy decides among equal ones", () => {
    const s = one("lpm");
    cache(s, 40);
    const waiting = [made(0, 10), made(1, 10), made(1, 20), made(0, 30)];
    expect(inOrder("lpm", waiting, s.pages).map((each) => waiting.indexOf(each))).toEqual([
      2, 1, 3, 0,
    ]);
  });

  test.each(SCHEDULE_POLICIES)("retracted ones stay in front under %s", (policy) => {
    const waiting = [made(0), made(9), made(3)];
    waiting[0]!.retractions = 1;
    expect(inOrder(policy, waiting, one(policy).pages).map((each) => each.priority)).toEqual([
      0, 9, 3,
    ]);
  });

  test("no request waits for ever: after so many other requests it has its turn", () => {
    const s = one("fcfs");
    const low = made(0);
    s.scheduler.add(low);
    let before = 0;
    while (low.finish === null) {
      s.scheduler.add(made(1));
      s.scheduler.add(made(1));
      const step = s.scheduler.schedule()!;
      before += step.sampled.filter((each) => each !== low).length;
      s.scheduler.commit(step, new Uint32Array(step.sampled.length).fill(9));
      // No more than can be waiting at once.
      for (const each of s.scheduler.all().slice(50)) s.scheduler.remove(each);
    }
    expect(before).toBe(MOST_OVERTAKEN);
  });

  test("requirePriority() takes whole numbers", () => {
    expect([undefined, -3, 2].map((value) => requirePriority(value))).toEqual([0, -3, 2]);
    for (const value of [0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => requirePriority(value)).toThrow(InvalidRequestError);
    }
  });
});
