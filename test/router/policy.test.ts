import { describe, expect, test } from "vitest";
import { MAX_PROMPT_TEXT, promptText } from "../../src/parallel/balance/prompt_text.ts";
import { CacheAwarePolicy } from "../../src/router/policy/cache_aware.ts";
import {
  type Policy,
  powerOfTwoPolicy,
  randomPolicy,
  roundRobinPolicy,
} from "../../src/router/policy/policy.ts";
import { CircuitBreaker } from "../../src/router/worker/breaker.ts";
import { Worker } from "../../src/router/worker/worker.ts";

const BREAKER = { failureThreshold: 1, successThreshold: 1, openTime: 1, window: 1 };

function workers(...loads: readonly number[]): Worker[] {
  return loads.map((load, i) => {
    const worker = new Worker(`http://${i}`, new CircuitBreaker(BREAKER));
    worker.inFlight = load;
    return worker;
  });
}

/** How often each worker is chosen. */
function counts(policy: Policy, of: readonly Worker[], times: number, prompt = ""): number[] {
  const chosen = Array.from({ length: times }, () => policy.choose(of, prompt).target);
  return of.map((worker) => chosen.filter((one) => one === worker).length);
}

test("round robin takes turns, also where workers come and go", () => {
  const policy = roundRobinPolicy();
  const all = workers(0, 0, 0);
  expect(counts(policy, all, 9)).toEqual([3, 3, 3]);
  policy.choose(all, "");
  const [a, b, c] = all as [Worker, Worker, Worker];
  expect([1, 2, 3, 4].map(() => policy.choose([a, c], "").target)).toEqual([c, a, c, a]);
  expect(policy.choose(all, "").target).toBe(b);
});

test("random takes each as often", () => {
  const [a, b, c] = counts(randomPolicy(), workers(0, 0, 0), 3000);
  // Six standard deviations of a binomial distribution are 155.
  for (const count of [a!, b!, c!]) expect(Math.abs(count - 1000)).toBeLessThan(155);
});

describe("power of two", () => {
  test("never takes the one with the most to do, and takes others as chance has it", () => {
    const [most, some, least] = counts(powerOfTwoPolicy(), workers(9, 5, 1), 3000);
    expect(most).toBe(0);
    expect(Math.abs(some! - 1000)).toBeLessThan(155);
    expect(Math.abs(least! - 2000)).toBeLessThan(155);
  });

  test("counts requests of others that a worker has told of, and this router's as they are now", () => {
    const [asked, other] = workers(2, 4) as [Worker, Worker];
    asked.reportLoad(7);
    expect(asked.load).toBe(7);
    asked.inFlight = 0;
    expect(asked.load).toBe(5);
    expect(counts(powerOfTwoPolicy(), [asked, other], 20)).toEqual([0, 20]);
    // What it was sent since, it has not told of.
    asked.reportLoad(0);
    asked.inFlight = 6;
    expect(counts(powerOfTwoPolicy(), [asked, other], 20)).toEqual([0, 20]);
  });
});

describe("cache aware", () => {
  const aware = (options = {}) =>
    new CacheAwarePolicy({
      cacheThreshold: 0.3,
      balanceAbsThreshold: 64,
      balanceRelThreshold: 1.5,
      maxTreeSize: 2 ** 20,
      ...options,
    });

  test("keeps prompts that begin alike together, and shares others out", () => {
    const policy = aware();
    const all = workers(0, 0, 0);
    const subjects = Array.from({ length: 9 }, (_, i) => `${i}`.repeat(50));
    const first = subjects.map((text) => policy.choose(all, `${text} first`));
    expect(first.map(({ isHit }) => isHit)).toEqual(subjects.map(() => false));
    expect(all.map((one) => first.filter(({ target }) => target === one).length)).toEqual([
      3, 3, 3,
    ]);
    for (const [i, text] of subjects.entries()) {
      const again = policy.choose(all, `${text} second`);
      expect(again).toEqual({ target: first[i]!.target, isHit: true });
    }
  });

  test("goes by a beginning only if it is a large enough share of the prompt", () => {
    const policy = aware({ cacheThreshold: 0.5 });
    const all = workers(0, 0);
    const { target: worker } = policy.choose(all, "x".repeat(100));
    expect(policy.choose(all, "x".repeat(60) + "y".repeat(40)).target).toBe(worker);
    const other = policy.choose(all, "x".repeat(49) + "z".repeat(51));
    expect(other.isHit).toBe(false);
    expect(other.target).not.toBe(worker);
  });

  test("takes the one with the least to do where loads are too different, by both thresholds", () => {
    const policy = aware({ balanceAbsThreshold: 10, balanceRelThreshold: 2 });
    const all = workers(0, 0);
    const { target: owner } = policy.choose(all, "prompt");
    const other = all.find((one) => one !== owner)!;
    owner.inFlight = 10;
    expect(policy.choose(all, "prompt").target).toBe(owner);
    owner.inFlight = 11;
    expect(policy.choose(all, "prompt")).toEqual({ target: other, isBalancing: true });
    // As many more, and not twice as many.
    owner.inFlight = 30;
    other.inFlight = 15;
    expect(policy.choose(all, "prompt").isBalancing).toBeUndefined();
  });

  test("a worker that is not there is passed over, not forgotten", () => {
    const policy = aware();
    const [a, b] = workers(0, 0) as [Worker, Worker];
    const first = policy.choose([a, b], "prompt of one").target;
    const other = first === a ? b : a;
    expect(policy.choose([other], "prompt of one").target).toBe(other);
    other.inFlight = 1;
    expect(policy.choose([a, b], "prompt of one").target).toBe(first);
  });

  test("prompts without text go to the one with the least to do", () => {
    const policy = aware();
    const all = workers(3, 1, 2);
    expect(policy.choose(all, "").target).toBe(all[1]);
  });

  test("its tree stays as large as it may be under prompts that never repeat", () => {
    const policy = aware({ maxTreeSize: 5000 });
    const all = workers(0, 0);
    for (let i = 0; i < 500; i++) policy.choose(all, `${i} ${"text ".repeat(20)}`);
    for (const worker of all) {
      expect(policy.sizeOf(worker)).toBeGreaterThan(4000);
      expect(policy.sizeOf(worker)).toBeLessThanOrEqual(5000);
    }
  });
});

describe("the text of a prompt", () => {
  test.each([
    [{ text: "one" }, "one"],
    [{ text: ["one", "two"] }, "one two"],
    [{ prompt: "one" }, "one"],
    [{ prompt: [1, 2, 3] }, "1 2 3"],
    [{ input_ids: [[1, 2], [3]] }, "1 2 3"],
    [{ text: null, input_ids: [7] }, "7"],
    [
      {
        messages: [
          { role: "system", content: "be brief" },
          { role: "user", content: [{ type: "text", text: "hello" }, { type: "image" }] },
        ],
      },
      "be brief hello",
    ],
    [{ messages: [null, 3, { content: null }] }, ""],
    [{ messages: "none" }, ""],
    [{ instructions: "be brief", input: "hello" }, "be brief hello"],
    [{ input: [{ role: "user", content: [{ type: "input_text", text: "hello" }] }] }, "hello"],
    [{ system: [{ type: "text", text: "be brief" }], messages: [{ content: "a" }] }, "be brief a"],
    [[], ""],
    [null, ""],
  ])("%j", (body, text) => {
    expect(promptText(body)).toBe(text);
  });

  test("ends at a limit, whatever it is put together from", () => {
    const long = "x".repeat(MAX_PROMPT_TEXT + 5);
    const parts = Array.from({ length: 60_000 }, () => "words");
    for (const body of [{ text: long }, { text: parts }, { messages: [{ content: long }] }]) {
      expect(promptText(body)).toHaveLength(MAX_PROMPT_TEXT);
    }
  });

  test("is looked for in no more parts than a prompt has, where they are empty", () => {
    const last = "behind";
    const empty = Array.from({ length: 2 ** 16 }, () => "");
    const lists = [
      { text: [...empty, last] },
      { input_ids: [[...empty, last]] },
      { messages: [...empty.map(() => null), { content: last }] },
      { messages: [{ content: [...empty.map(() => ({})), { text: last }] }] },
    ];
    for (const body of lists) expect(promptText(body)).toBe("");
  });
});

test("prompts of a worker as a whole are forgotten with it, also where it has replicas", () => {
  const policy = new CacheAwarePolicy({
    ...{ cacheThreshold: 0.5, balanceAbsThreshold: 64, balanceRelThreshold: 1.5 },
    maxTreeSize: 2 ** 20,
  });
  const [worker] = workers(0);
  worker!.split(2);
  policy.choose([worker!], "named by its client");
  expect(policy.choose([worker!], "named by its client").isHit).toBe(true);
  expect(policy.sizeOf(worker!)).toBeGreaterThan(0);
  policy.forget(worker!);
  expect(policy.sizeOf(worker!)).toBe(0);
  expect(policy.choose([worker!], "named by its client").isHit).toBe(false);
});
