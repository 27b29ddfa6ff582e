import { describe, expect, test } from "vitest";
import type { SchedulePolicy } from "../../../src/engine/schedule/schedule_policy.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { carryOut } from "../../../src/engine/step/page_transfers.ts";
import { CapacityError } from "../../../src/errors.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";
import { EOS, scheduler, sequence, slotMemory } from "../../support/engines/sequences.ts";

describe("Scheduler", () => {
  test("mixed steps hold chunks of prompts behind generated rows", () => {
    const { scheduler: s } = scheduler(100, 4, { mixedChunks: true });
    s.add(sequence(3, 5).sequence);
    s.commit(s.schedule()!, Uint32Array.of(7));
    s.add(sequence(20, 5).sequence);
    const shapes = [];
    for (let i = 0; i < 3; i++) {
      const step = s.schedule()!;
      shapes.push(
        step.batch.sequences.map((q) => [q.phase, q.queryStart, q.queryLength, q.position]),
      );
      s.commit(step, new Uint32Array(step.sampled.length).fill(8));
    }
    expect(shapes).toEqual([
      [
        ["decode", 0, 1, 3],
        ["prefill", 1, 8, 0],
      ],
      [
        ["decode", 0, 1, 4],
        ["prefill", 1, 8, 8],
      ],
      [
        ["decode", 0, 1, 5],
        ["prefill", 1, 4, 16],
      ],
    ]);
  });

  test("prompts come before decoding, unless steps are mixed", () => {
    const { scheduler: s } = scheduler(100, 4);
    s.add(sequence(3, 5).sequence);
    s.commit(s.schedule()!, Uint32Array.of(7));
    s.add(sequence(12, 5).sequence);
    const shapes = [];
    for (let i = 0; i < 3; i++) {
      const step = s.schedule()!;
      shapes.push(step.batch.sequences.map((q) => [q.phase, q.queryLength]));
      s.commit(step, new Uint32Array(step.sampled.length).fill(8));
    }
    expect(shapes).toEqual([
      [["prefill", 8]],
      [["prefill", 4]],
      [
        ["decode", 1],
        ["decode", 1],
      ],
    ]);
  });

  test("prompt tokens beyond the first request's are bounded", () => {
    const { scheduler: s } = scheduler(100, 4, { maxPrefillTokens: 5, maxPrefillRows: 16 });
    for (const length of [7, 3]) s.add(sequence(length, 1).sequence);
    expect(s.schedule()!.batch.sequences.map((q) => q.queryLength)).toEqual([7]);
  });

  test("no request overtakes the head of the queue, and it gets its turn", () => {
    const { scheduler: s } = scheduler(8, 4);
    const [first, large, small] = [sequence(4, 13), sequence(24, 5), sequence(4, 2)];
    for (const { sequence } of [first, large, small]) s.add(sequence);
    const starts: number[] = [];
    while (s.hasWork) {
      const step = s.schedule()!;
      for (const { sequence: q, position } of step.batch.sequences.map((b, i) => ({
        sequence: step.progress[i]!.sequence,
        position: b.position,
      }))) {
        if (position === 0) starts.push([first, large, small].findIndex((x) => x.sequence === q));
      }
      s.commit(step, new Uint32Array(step.sampled.length).fill(9));
    }
    expect(starts).toEqual([0, 1, 2]);
  });

  test("the keys that prompts look at in one step are bounded", () => {
    const { scheduler: s } = scheduler(100, 4, { maxPrefillKeys: 12, maxPrefillRows: 16 });
    for (let i = 0; i < 3; i++) s.add(sequence(6, 1).sequence);
    expect(s.schedule()!.batch.sequences).toHaveLength(2);
  });

  test("a full queue refuses; a place in it is free again after remove()", () => {
    const { scheduler: s } = scheduler(100, 4, { maxRunningRequests: 1, maxQueuedRequests: 1 });
    const made = [1, 2, 3, 4].map(() => sequence(4, 4).sequence);
    s.add(made[0]!);
    s.add(made[1]!);
    expect(() => s.add(made[2]!)).toThrow(CapacityError);
    s.remove(made[1]!);
    s.add(made[2]!);
    expect(s.waitingCount + s.runningCount).toBe(2);
  });

  test("a sequence aborted while its step runs gets no token and holds no page", () => {
    const { scheduler: s, pool } = scheduler(100, 4);
    const { sequence: gone, chunks } = sequence(4, 4);
    s.add(gone);
    const step = s.schedule()!;
    s.remove(gone);
    gone.abort("left");
    s.commit(step, Uint32Array.of(5));
    expect(chunks.map(({ finish }) => finish?.type)).toEqual(["abort"]);
    expect(pool.freeCount).toBe(100);
    expect(s.schedule()).toBeUndefined();
  });

  test("requests that share a beginning compute it once", () => {
    const { scheduler: s, pages } = scheduler(100, 4, {
      shared: true,
      maxPrefillRows: 64,
      maxRows: 64,
    });
    const made = [1, 2, 3].map(() => sequence(50, 3));
    for (const { sequence } of made) s.add(sequence);
    let prompts = 0;
    while (s.hasWork) {
      const step = s.schedule()!;
      for (const q of step.batch.sequences) if (q.phase === "prefill") prompts += q.queryLength;
      s.commit(step, new Uint32Array(step.sampled.length).fill(9));
    }
    // 48 of the 50 tokens lie in whole pages, one more in a page that is copied.
    expect(prompts).toBe(50 + 1 + 1);
    expect(made.map(({ chunks }) => chunks.at(-1)!.cachedTokens)).toEqual([0, 49, 49]);
    expect(pages.available).toBe(100);
    expect(pages.cachedPages).toBe(13);
  });

  test.each([true, false])(
    "what is generated is another's once it has ended (forms differ: %s)",
    (promptsDiffer) => {
      const { scheduler: s } = scheduler(100, 2, { shared: true, promptsDiffer });
      const first = sequence(6, 30);
      s.add(first.sequence);
      // Tokens 8, 9, .. go on with what longer prompts hold.
      const next = ({ sampled }: ScheduledStep) =>
        Uint32Array.from(sampled, ({ tokens }) => 2 + (tokens.length % 60));
      const turn = () => {
        const step = s.schedule()!;
        s.commit(step, next(step));
      };
      for (let i = 0; i < 8; i++) turn();
      const beside = sequence(16, 2);
      s.add(beside.sequence);
      while (beside.sequence.finish === null) turn();
      expect(first.sequence).toMatchObject({ finish: null, sharedTokens: 6 });
      while (s.hasWork) turn();
      const later = sequence(40, 1);
      s.add(later.sequence);
      turn();
      expect(later.chunks.at(-1)!.cachedTokens).toBe(34);
    },
  );

  test("partitions share nothing", () => {
    const { scheduler: s } = scheduler(100, 4, { shared: true });
    const seen = new Set<string>();
    for (const partition of ["a", "b", "a"]) {
      const { sequence: made, chunks } = sequence(20, 1, {}, { partition });
      s.add(made);
      while (s.hasWork) s.commit(s.schedule()!, Uint32Array.of(9));
      expect(chunks.at(-1)!.cachedTokens).toBe(partition === "a" && seen.has("a") ? 16 : 0);
      seen.add(partition);
    }
  });

  test("the longest cached prefix comes first under lpm, the longest answer under lof", () => {
    const order = (policy: SchedulePolicy) => {
      const { scheduler: s } = scheduler(100, 1, { shared: true, policy, maxRunningRequests: 1 });
      s.add(sequence(30, 1).sequence);
      s.commit(s.schedule()!, Uint32Array.of(9));
      const waiting = [
        sequence(20, 2, {}, { first: 40 }).sequence,
        sequence(20, 3).sequence,
        sequence(40, 1).sequence,
      ];
      for (const one of waiting) s.add(one);
      const started: Sequence[] = [];
      while (s.hasWork) {
        const step = s.schedule()!;
        for (const { sequence } of step.progress) {
          if (!started.includes(sequence)) started.push(sequence);
        }
        s.commit(step, new Uint32Array(step.sampled.length).fill(9));
      }
      return started.map((one) => waiting.indexOf(one)).filter((at) => at >= 0);
    };
    expect(order("fcfs")).toEqual([0, 1, 2]);
    expect(order("lpm")).toEqual([2, 1, 0]);
    expect(order("lof")).toEqual([1, 0, 2]);
    expect(order("random").sort()).toEqual([0, 1, 2]);
  });

  test("without room the shortest answer is computed again, prompt and answer each in its form", () => {
    const { scheduler: s } = scheduler(12, 1, { conservativeness: 0 });
    const long = sequence(4, 8);
    const late = sequence(3, 8);
    s.add(long.sequence);
    s.commit(s.schedule()!, Uint32Array.of(9));
    s.commit(s.schedule()!, Uint32Array.of(9));
    s.add(late.sequence);
    const phases: string[] = [];
    while (s.hasWork) {
      const step = s.schedule()!;
      step.batch.sequences.forEach((q, i) => {
        if (step.progress[i]!.sequence !== late.sequence) return;
        phases.push(`${q.phase} ${q.position}+${q.queryLength}`);
      });
      s.commit(
        step,
        Uint32Array.from(step.sampled, ({ tokens }) => 10 + tokens.length),
      );
    }
    expect(late.sequence.retractions).toBeGreaterThan(0);
    expect(long.sequence.retractions).toBe(0);
    expect(phases.filter((phase) => phase === "prefill 0+3").length).toBeGreaterThan(1);
    expect(phases.some((phase) => /^decode 3\+[2-9]$/.test(phase))).toBe(true);
    expect(late.sequence.tokens.slice(3)).toEqual([13, 14, 15, 16, 17, 18, 19, 20]);
  });
});

/** Two sequences that do not fit together; what the second one computes, and its last state. */
async function squeeze(slotCount: number) {
  const slots = new Map<number, number>();
  const memory = slotMemory(slotCount, slots, 1);
  const { scheduler: s, pool } = scheduler(12, 1, {
    conservativeness: 0,
    retractionMemory: memory,
  });
  const [long, late] = [sequence(4, 8), sequence(3, 8)];
  s.add(long.sequence);
  for (let i = 0; i < 2; i++) s.commit(s.schedule()!, Uint32Array.of(9));
  s.add(late.sequence);
  const rows: number[] = [];
  let most = 0;
  const step = async () => {
    const next = s.schedule()!;
    await carryOut(next.transfers, { retractionMemory: memory });
    most = Math.max(most, memory.usedBytes);
    next.batch.sequences.forEach((q, i) => {
      if (next.progress[i]!.sequence !== late.sequence) return;
      for (let at = 0; at < q.queryLength; at++) rows.push(q.position + at);
    });
    s.commit(
      next,
      Uint32Array.from(next.sampled, ({ tokens }) => 10 + tokens.length),
    );
  };
  return { s, pool, memory, late: late.sequence, rows, step, most: () => most };
}

describe("Scheduler with host memory for what is retracted", () => {
  test("nothing is computed twice", async () => {
    const { s, late, rows, step, memory, most } = await squeeze(100);
    while (s.hasWork) await step();
    expect(late.retractions).toBeGreaterThan(0);
    expect(rows).toEqual(Array.from({ length: 10 }, (_, i) => i));
    expect(late.tokens.slice(3)).toEqual([13, 14, 15, 16, 17, 18, 19, 20]);
    expect(most()).toBeGreaterThan(0);
    expect(memory.usedBytes).toBe(0);
  });

  test("what does not fit the budget is computed again, to the same tokens", async () => {
    const { s, late, rows, step, most } = await squeeze(2);
    while (s.hasWork) await step();
    expect(rows.length).toBeGreaterThan(10);
    expect(late.tokens.slice(3)).toEqual([13, 14, 15, 16, 17, 18, 19, 20]);
    expect(most()).toBe(0);
  });

  test("an abort while pages wait frees them", async () => {
    const { s, pool, late, step, memory } = await squeeze(100);
    while (late.retractions === 0) await step();
    expect(memory.usedBytes).toBeGreaterThan(0);
    s.remove(late);
    expect(memory.usedBytes).toBe(0);
    while (s.hasWork) await step();
    expect(pool.freeCount).toBe(12);
  });
});

describe("Sequence", () => {
  const run = (tokens: number[], params: SamplingParams, maxNewTokens = 50) => {
    const { sequence: made, chunks } = sequence(2, maxNewTokens, params);
    for (const token of tokens) if (made.finish === null) made.accept([token]);
    return { text: chunks.map(({ text }) => text).join(""), finish: made.finish, chunks };
  };

  test("an EOS ends it without text of its own; ignoreEos goes on with it", () => {
    expect(run([2, 3, EOS, 4], {})).toMatchObject({
      text: "cd",
      finish: { type: "stop", matched: EOS },
    });
    expect(run([2, 3, EOS, 4], { ignoreEos: true, stopTokenIds: [3] })).toMatchObject({
      text: "cdbe",
      finish: null,
    });
  });

  test("a stop token and a stop string say which one it was", () => {
    expect(run([2, 3, 4], { stopTokenIds: [3] }).finish).toEqual({ type: "stop", matched: 3 });
    expect(run([2, 3, 4, 5], { stop: "de" })).toMatchObject({
      text: "c",
      finish: { type: "stop", matched: "de" },
    });
  });

  test("length comes before EOS and before a stop string at the same token", () => {
    expect(run([2, EOS], {}, 2).finish).toEqual({ type: "length", length: 2 });
    expect(run([2, 3], { stop: "cd" }, 2)).toMatchObject({
      text: "",
      finish: { type: "length", length: 2 },
    });
  });

  test("text held back for a stop string comes out when the sequence ends otherwise", () => {
    const { text, chunks } = run([2, 3, 4], { stop: "cdeX" }, 3);
    expect(chunks.map((chunk) => chunk.text)).toEqual(["", "", "cde"]);
    expect(text).toBe("cde");
  });
});
