/**
 * Random schedules of an engine that drafts: drafts right and wrong, clients that leave, too few pages,
 * grammars with dead ends, lost devices. Every request ends, with what an engine without drafts answers.
 */
import { describe, expect, test } from "vitest";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { SimulatedEngine } from "../../support/simulated/simulated_engine.ts";
import { PlayedRules } from "../../support/simulated/simulated_grammar.ts";
import { type Random, randomDrafts, seeded } from "../../support/simulated/simulated_schedules.ts";

const isFull = process.env.WISP_TEST_FULL === "1";
const SCHEDULES = isFull ? 100_000 : 200;
/** In which a planted fault has to be found. */
const TRIED = 120;
/** Tokens of the cache, which the longest request fits. */
const LONGEST = 32;
const REQUESTS = 4;
/** Waits from one loss to the next: rows that lose devices one after another are taken to be the reason. */
const CALM = 60;

function engineOf(random: Random): SimulatedEngine {
  const pageSize = [1, 2, 4, 8][random(4)]!;
  return new SimulatedEngine({
    pageCount: Math.ceil(LONGEST / pageSize),
    pageSize,
    shared: random(4) > 0,
    promptsDiffer: random(2) === 0,
    hostSlots: [0, 40, 1000][random(3)]!,
    ahead: random(3),
    mixedChunks: random(2) === 0,
    ...randomDrafts(random, LONGEST),
    // All of them right, most, half, none.
    wrongDrafts: [1 << 30, 5, 2, 1][random(4)]!,
    maxGeneratedRows: [6, 9, 16][random(3)]!,
    maxRunningRequests: 6,
    conservativeness: [0, 0, 1][random(3)]!,
  });
}

interface Told {
  readonly engine: SimulatedEngine;
  readonly random: Random;
  readonly requests: Sequence[];
}

/** @param prepare Called before anything runs. */
async function runSchedule(seed: number, prepare: (told: Told) => void = () => {}): Promise<Told> {
  const random = seeded(seed);
  const engine = engineOf(random);
  const told: Told = { engine, random, requests: [] };
  const { requests } = told;
  const losesDevices = random(3) === 0;
  const arrive = () => {
    const prompt = Array.from({ length: 1 + random(14) }, (_, i) => 2 + random(2) * 7 + i);
    const rules = random(2) === 0 ? new PlayedRules(random(1 << 20)) : undefined;
    const jump = (["off", "forced"] as const)[random(2)]!;
    const partition = ["a", undefined][random(2)];
    requests.push(engine.add({ prompt, maxNewTokens: 1 + random(18), partition, rules, jump }));
  };
  let calm = 0;
  engine.isLostNow = () => {
    calm -= 1;
    if (!losesDevices || calm > 0 || random(40) > 0) return false;
    calm = CALM;
    return true;
  };
  engine.onAwait = () => {
    if (requests.length < REQUESTS && random(3) === 0) arrive();
    const victim = random(50) === 0 ? [...engine.live][random(engine.live.size)] : undefined;
    if (victim !== undefined) engine.leave(victim);
  };
  arrive();
  prepare(told);
  await engine.run();
  engine.checkIdle();
  for (const one of requests) expect(one.finish, "a request that has not ended").not.toBeNull();
  for (const [, error] of engine.errors) expect(error).toBeInstanceOf(GrammarError);
  return told;
}

test(
  `${SCHEDULES} schedules end as without drafts, and no page, request or session is left`,
  async () => {
    const sums: Record<string, number> = {};
    const count = (name: string, by = 1) => {
      sums[name] = (sums[name] ?? 0) + by;
    };
    for (let seed = 1; seed <= SCHEDULES; seed++) {
      const { engine, requests } = await runSchedule(seed).catch((cause) => {
        throw new Error(`schedule ${seed}`, { cause });
      });
      const { steps, retractions, restores, losses, continued } = engine.counts;
      const { drafted, accepted, moved } = engine.gpu.counts;
      const all = { steps, retractions, restores, losses, continued, drafted, accepted, moved };
      for (const [name, value] of Object.entries(all)) count(name, value);
      count("sessions", engine.grammars.opened);
      count("dead ends", engine.errors.size);
      for (const { finish, forced } of requests) {
        count(finish!.type);
        count("forced", forced);
      }
    }
    // All of it has happened, and often.
    for (const [name, sum] of Object.entries(sums)) {
      expect(sum, name).toBeGreaterThan(SCHEDULES / 20);
    }
    if (isFull) console.log(sums);
  },
  isFull ? 3_600_000 : 60_000,
);

/** What a faulty engine would do. */
const FAULTS: readonly (readonly [string, (told: Told) => void])[] = [
  [
    "takes a draft that was not drawn",
    ({ engine: { scheduler } }) => {
      const { commit } = scheduler;
      scheduler.commit = (step, tokens, proposed) => {
        const wrong = Uint32Array.from(tokens);
        for (const [one, [first]] of step.drafts) {
          const row = step.sampled.indexOf(one);
          if (first !== undefined && !step.continued.has(one)) wrong[row] = first;
        }
        return commit.call(scheduler, step, wrong, proposed);
      };
    },
  ],
  [
    "has a row behind a draft drawn under the mask of the row before it",
    (told) =>
      forEach(told, ({ grammar }) => {
        if (grammar === undefined) return;
        const { maskBehind } = grammar;
        grammar.maskBehind = (node) => maskBehind.call(grammar, Math.max(node - 1, 0));
      }),
  ],
  [
    "tells a grammar one token of a step only",
    (told) =>
      forEach(told, ({ grammar }) => {
        if (grammar === undefined) return;
        const { advance } = grammar;
        grammar.advance = (tokens, given) => advance.call(grammar, tokens.slice(0, 1), given);
      }),
  ],
  [
    "leaves the session of a request that ends open",
    (told) =>
      forEach(told, ({ grammar }) => {
        if (grammar !== undefined) grammar.close = () => {};
      }),
  ],
  [
    "loses a page of a request that ends",
    ({ engine: { pool } }) => {
      const { release } = pool;
      pool.release = (pages) => release.call(pool, pages.slice(1));
    },
  ],
  [
    "waits for tokens that a lost device was to draw",
    (told) =>
      forEach(told, (one) => {
        const { restart } = one;
        one.restart = () => {
          const { pending } = one;
          restart.call(one);
          one.pending = pending;
        };
      }),
  ],
  [
    "leaves the entries of a tree's path where they are",
    ({ engine: { gpu } }) => {
      const { run } = gpu;
      gpu.run = (step, rows) => {
        const before = new Map(gpu.slots);
        const results = run.call(gpu, step, rows);
        if (step.parents.size > 0) for (const [slot, found] of before) gpu.slots.set(slot, found);
        return results;
      };
    },
  ],
  [
    "leaves pages of a retracted request in host memory",
    ({ engine: { memory } }) => {
      memory.restore = async () => {};
    },
  ],
];

function forEach({ requests }: Told, change: (one: Sequence) => void): void {
  const { push } = requests;
  for (const one of requests) change(one);
  requests.push = (...added) => {
    for (const one of added) change(one);
    return push.apply(requests, added);
  };
}

describe("the campaign finds an engine that", () => {
  test.each(FAULTS)("%s", async (_, plant) => {
    const first = async () => {
      for (let seed = 1; seed <= TRIED; seed++) await runSchedule(seed, plant);
    };
    await expect(first()).rejects.toThrow();
  });
});
