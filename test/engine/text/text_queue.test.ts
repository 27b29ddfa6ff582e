import { expect, test } from "vitest";
import { packed, unpacked } from "../../../src/engine/text/packed_job.ts";
import type { TextJob } from "../../../src/engine/text/text_jobs.ts";
import { TextQueue, type WaitingJob } from "../../../src/engine/text/text_queue.ts";
import { hasManyValues, MAX_SIZE, textSize } from "../../../src/engine/text/text_size.ts";
import { CapacityError } from "../../../src/errors.ts";
import { seeded } from "../../support/seeded.ts";

function job(size: number, isUrgent = false, client?: string): WaitingJob {
  const question = { type: "run", job: { type: "encode", text: "" } } as const;
  return { question, kind: "text", size, isUrgent, client, resolve: () => {}, reject: () => {} };
}

test("the queue of texts gives out urgent ones first, and has room for what it says", () => {
  const random = seeded(22);
  const limit = 20_000;
  const queue = new TextQueue(limit);
  let model: WaitingJob[] = [];
  let isOldestsTurn = false;
  const classOf = ({ size }: WaitingJob) => Math.floor(Math.log2(Math.max(size, 1024)));
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
      const urgent = model.find(({ isUrgent }) => isUrgent);
      const least = Math.min(...model.map(classOf));
      const smallest = model.find((one) => classOf(one) === least);
      const expected = urgent ?? (isOldestsTurn ? model[0] : smallest);
      if (urgent === undefined) isOldestsTurn = !isOldestsTurn;
      expect(queue.take()).toBe(expected);
      model = model.filter((other) => other !== expected);
    }
    expect(queue.length).toBe(model.length);
  }
});

test("a short text waits for two long ones at most, and a long one for short ones by turns", () => {
  const queue = new TextQueue(2 ** 25);
  const long = Array.from({ length: 500 }, () => job(30_000));
  for (const one of long) queue.add(one);
  const taken = [queue.take()];
  const short = Array.from({ length: 8 }, (_, i) => job(500 + i));
  for (const one of short) queue.add(one);
  for (let i = 0; i < 16; i++) taken.push(queue.take());
  expect(taken.indexOf(short[0])).toBeLessThan(3);
  const order = taken.slice(1).map((one) => short.indexOf(one!));
  expect(order.filter((at) => at >= 0)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(order.filter((at) => at < 0)).toHaveLength(8);
});

test("a client's text waits for few of another's, and has room however much that one sends", () => {
  const limit = 1_000_000;
  const queue = new TextQueue(limit);
  const flood = (size: number) => {
    let sent = 0;
    expect(() => {
      for (;;) {
        queue.add(job(size, false, "flood"));
        sent += 1;
      }
    }).toThrow(CapacityError);
    return sent;
  };
  const hostile = flood(600) + flood(5000);
  // As many as are free, which no more of its own make less.
  expect(hostile).toBeGreaterThan(300);
  expect(hostile * 1024).toBeLessThanOrEqual(limit / 2);
  const good = [600, 5000, 700, 30_000].map((size) => job(size, false, "good"));
  const other = job(600, false, "other");
  for (const one of [...good, other]) queue.add(one);
  const taken = Array.from({ length: 16 }, () => queue.take());
  const places = good.map((one) => taken.indexOf(one));
  expect(Math.min(...places)).toBeGreaterThanOrEqual(0);
  expect(taken.indexOf(good[0])).toBeLessThan(4);
  expect(taken.indexOf(other)).toBeGreaterThanOrEqual(0);
  expect(taken.indexOf(other)).toBeLessThan(6);
  // What has left gives its room back.
  const rest = new Set<WaitingJob | undefined>();
  while (queue.length > 0) rest.add(queue.take());
  expect(rest.size + taken.length).toBe(hostile + good.length + 1);
  queue.add(job(1024, false, "good"));
  queue.add(job(limit / 2 - 2048, false, "flood"));
});

test("of a client of which nothing is known as much may wait as there is room for", () => {
  const queue = new TextQueue(100 * 1024);
  for (let i = 0; i < 100; i++) queue.add(job(1));
  expect(() => queue.add(job(1))).toThrow(CapacityError);
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

test("jobs of many values are told from long texts, and are the same once they are unpacked", async () => {
  const chat = (count: number): TextJob => ({
    type: "prompt",
    request: {
      messages: Array.from({ length: count }, () => ({ role: "user", content: "é\ud83d" })),
    },
    fit: { contextLength: 99, allowAutoTruncate: undefined },
  });
  const decode: TextJob = {
    type: "decode",
    tokens: Array.from({ length: 100_000 }, (_, i) => i),
    skipSpecialTokens: true,
  };
  expect(hasManyValues({ type: "encode", text: "x".repeat(1_000_000) })).toBe(false);
  expect(hasManyValues(chat(1000))).toBe(false);
  for (const job of [chat(20_000), decode]) {
    expect(hasManyValues(job)).toBe(true);
    const pieces = await packed(job, () => true);
    expect(pieces.length).toBeGreaterThan(4);
    for (const piece of pieces) expect(piece.length).toBeLessThan(2 ** 18);
    expect(unpacked(pieces)).toEqual(JSON.parse(JSON.stringify(job)));
  }
});

test("a job whose caller has left is packed no further", async () => {
  const values = Array.from({ length: 100_000 }, () => [] as unknown[]);
  const seen: unknown[] = [];
  const all = Array.from({ length: 200 }, (_, i) => ({
    get values() {
      seen.push(i);
      return values;
    },
  }));
  const request = { messages: [], templateVariables: { all } };
  expect(await packed({ type: "prompt", request }, () => false)).toEqual(expect.any(Array));
  expect(seen.length).toBeLessThan(200);
});
