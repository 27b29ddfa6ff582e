import { describe, expect, test } from "vitest";
import { PagePool } from "../../src/cache/page_pool.ts";
import { resolveSampling } from "../../src/engine/sampling_params.ts";
import { Scheduler, type SchedulerOptions } from "../../src/engine/scheduler.ts";
import { Sequence } from "../../src/engine/sequence.ts";
import { CapacityError } from "../../src/errors.ts";
import type { GenerationChunk, SamplingParams } from "../../src/generation.ts";
import { Detokenizer } from "../../src/text/detokenizer.ts";
import { Vocabulary } from "../../src/text/vocabulary.ts";

const EOS = 1;
/** Token i is the letter i of the alphabet, over and over. */
const pieces = new Map(Array.from({ length: 64 }, (_, i) => [i, Uint8Array.of(97 + (i % 26))]));
const vocabulary = new Vocabulary(pieces, []);

function sequence(promptLength: number, maxNewTokens: number, params: SamplingParams = {}) {
  const chunks: GenerationChunk[] = [];
  const sampling = resolveSampling(params, { vocabularySize: 64, seed: 0 });
  const made = new Sequence({
    requestId: "r",
    prompt: Array.from({ length: promptLength }, (_, i) => 2 + (i % 60)),
    sampling,
    maxNewTokens,
    eosTokenIds: new Set([EOS]),
    detokenizer: new Detokenizer(vocabulary, sampling),
    onChunk: (chunk) => chunks.push(chunk),
    onError: (error) => {
      throw error;
    },
  });
  return { sequence: made, chunks };
}

function scheduler(pages: number, pageSize: number, options: Partial<SchedulerOptions> = {}) {
  const pool = new PagePool(pages, pageSize);
  return {
    pool,
    scheduler: new Scheduler(pool, {
      maxRunningRequests: 4,
      maxQueuedRequests: 100,
      maxRows: 16,
      maxPrefillRows: 8,
      maxPrefillKeys: 1000,
      ...options,
    }),
  };
}

describe("Scheduler", () => {
  test("prompts go in chunks while others decode, generated rows first", () => {
    const { scheduler: s } = scheduler(100, 4);
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

  test("nobody overtakes the head of the queue, and it gets its turn", () => {
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

  test.each([1, 2, 3, 4, 5])(
    "every token is computed once and no page is lost (seed %i)",
    (seed) => {
      let state = seed * 7919;
      const random = (below: number) => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return Math.floor((state / 2 ** 32) * below);
      };
      const pageSize = 1 + random(8);
      const { scheduler: s, pool } = scheduler(Math.ceil(120 / pageSize), pageSize);
      const live = new Set<Sequence>();
      for (let turn = 0; turn < 1500; turn++) {
        if (random(4) === 0 && turn < 1200) {
          const { sequence: made } = sequence(1 + random(30), 1 + random(20));
          s.add(made);
          live.add(made);
        }
        if (random(20) === 0) {
          const victim = [...live][random(live.size)];
          if (victim !== undefined) {
            s.remove(victim);
            victim.abort("left");
            live.delete(victim);
          }
        }
        const step = s.schedule();
        if (step === undefined) continue;
        const { batch, progress } = step;
        expect(batch.sources.length).toBeLessThanOrEqual(16);
        let row = 0;
        let prefill = false;
        batch.sequences.forEach((q, i) => {
          const { sequence: owner, computed } = progress[i]!;
          prefill ||= q.phase === "prefill";
          expect(q.phase).toBe(prefill ? "prefill" : "decode");
          expect([q.queryStart, q.position]).toEqual([row, owner.computed]);
          expect(computed).toBe(owner.computed + q.queryLength);
          expect([...batch.sources.subarray(row, row + q.queryLength)]).toEqual(
            owner.tokens.slice(q.position, computed),
          );
          expect(q.pageTable.length * pageSize).toBeGreaterThanOrEqual(computed);
          row += q.queryLength;
        });
        const held = [...live].flatMap(({ pageTable }) => pageTable);
        expect(new Set(held).size).toBe(held.length);
        expect(held.length + pool.freeCount).toBe(pool.pageCount);
        s.commit(
          step,
          Uint32Array.from(step.sampled, () => random(64)),
        );
        for (const q of live) if (q.finish !== null) live.delete(q);
      }
      expect(live.size).toBe(0);
      expect(pool.freeCount).toBe(pool.pageCount);
      expect(s.hasWork).toBe(false);
    },
  );
});

describe("Sequence", () => {
  const run = (tokens: number[], params: SamplingParams, maxNewTokens = 50) => {
    const { sequence: made, chunks } = sequence(2, maxNewTokens, params);
    for (const token of tokens) if (made.finish === null) made.append(token);
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
