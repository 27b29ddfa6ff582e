import { afterEach, expect, test, vi } from "vitest";
import { SCHEDULE_POLICIES } from "../../../src/engine/schedule/schedule_policy.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import { RequestLosesDeviceError } from "../../../src/errors.ts";
import { SimulatedEngine } from "../../support/simulated/simulated_engine.ts";
import { type Random, randomDrafts, seeded } from "../../support/simulated/simulated_schedules.ts";

const OPERATIONS = process.env.WISP_TEST_FULL === "1" ? 1_000_000 : 48_000;
/** Of one engine. A scheduler that had to retract is more careful from then on. */
const EPISODE = 150;
/** Tokens of a request, and of the whole cache. */
const LONGEST = 96;
/** Waits of the loop, at least, from one loss by chance to the next. */
const CALM = 60;
const SEEDS = [1, 2, 3, 4, 5, 7];
const SUMMED = [
  "retractions",
  "copies",
  "restores",
  "ended",
  "losses",
  "drafted",
  "accepted",
  "continued",
  "entering",
  "leftOut",
  "moved",
] as const;

/** Little room, so that requests wait and are retracted. */
function engineOf(random: Random): SimulatedEngine {
  const pageSize = [1, 2, 3, 8, 16][random(5)]!;
  return new SimulatedEngine({
    pageCount: Math.ceil(LONGEST / pageSize),
    pageSize,
    shared: random(4) > 0,
    promptsDiffer: random(2) === 0,
    hostSlots: [0, 100, 10_000][random(3)]!,
    ahead: random(3),
    mixedChunks: random(2) === 0,
    ...randomDrafts(random, LONGEST),
    maxGeneratedRows: [6, 9, 16][random(3)]!,
    maxRunningRequests: 6,
    policy: SCHEDULE_POLICIES[random(SCHEDULE_POLICIES.length)]!,
    conservativeness: [0, 0, 0, 1][random(4)]!,
  });
}

/** Pages cannot always be had, nor moved. */
function spoil(engine: SimulatedEngine, random: Random): void {
  const error = new RangeError("no memory");
  engine.failWhen("allocate", () => random(25) === 0, error);
  engine.failWhen("readPages", () => random(3) === 0, error);
  engine.failWhen("writePages", () => random(3) === 0, error);
}

/** A few requests lose the device with the row at some place, whenever it is computed. */
function spoilRows(engine: SimulatedEngine): (one: Sequence) => boolean {
  const placeOf = ({ promptLength, tokens }: Sequence) =>
    promptLength % 7 === 0 ? Math.max(1, promptLength - 2 + 3 * (tokens[0]! % 3)) : undefined;
  engine.losesWith = ({ progress }) =>
    progress.some(({ sequence, position, computed }) => {
      const place = placeOf(sequence);
      return place !== undefined && position < place && computed >= place;
    });
  return (one) => placeOf(one) !== undefined;
}

/** Requests come and leave wherever the loop waits; tells how many operations that were. */
async function episode(
  engine: SimulatedEngine,
  { random, losesDevices }: { readonly random: Random; readonly losesDevices: boolean },
): Promise<number> {
  const { counts, live } = engine;
  let changes = 0;
  let earlier: readonly number[] = [2];
  /** An earlier prompt, a conversation that goes on, or another beginning. */
  const prompt = () => {
    const letters = Array.from({ length: 1 + random(30) }, (_, i) => 2 + random(2) * 7 + i);
    const longer = [...earlier, ...letters].slice(0, 1 + random(50));
    return [earlier.slice(0, 50), longer, letters][random(3)]!;
  };
  const arrive = () => {
    changes += 1;
    const partition = ["a", undefined][random(2)];
    const request = { prompt: prompt(), partition, priority: random(2) };
    const { tokens } = engine.add({ ...request, maxNewTokens: 1 + random(46) });
    // What it will have generated belongs to it.
    if (random(4) === 0) earlier = tokens;
  };
  // Every sequence begins anew then, so that many losses would let none end; and those of one request
  // come sooner after each other than those by chance.
  let calm = 0;
  engine.isLostNow = () => {
    calm -= 1;
    if (!losesDevices || calm > 0 || random(60) > 0) return false;
    calm = CALM;
    return true;
  };
  engine.onAwait = () => {
    if (counts.steps + changes < EPISODE && live.size < 16 && random(3) === 0) arrive();
    const victim = random(30) === 0 ? [...live][random(live.size)] : undefined;
    if (victim === undefined) return;
    changes += 1;
    engine.leave(victim);
  };
  arrive();
  await engine.run();
  engine.checkIdle();
  return counts.steps + changes;
}

afterEach(() => {
  vi.restoreAllMocks();
});

test.each(SEEDS)(
  "every row finds what it needs in the cache, no page is lost, and devices may be (seed %i)",
  async (seed) => {
    const random = seeded(seed);
    // The policy of that name draws from it.
    vi.spyOn(Math, "random").mockImplementation(() => random(2 ** 30) / 2 ** 30);
    let failed = 0;
    let found = 0;
    const totals = {
      ...{ mostAhead: 0, retractions: 0, copies: 0, restores: 0, ended: 0, losses: 0 },
      ...{ drafted: 0, accepted: 0, continued: 0, entering: 0, leftOut: 0, moved: 0 },
    };
    for (let i = 0, operations = 0; operations < OPERATIONS / SEEDS.length; i++) {
      const engine = engineOf(random);
      const mayFail = i % 4 === 0;
      if (mayFail) spoil(engine, random);
      const losesDevices = i % 4 === 2 ? spoilRows(engine) : () => false;
      operations += await episode(engine, { random, losesDevices: i % 4 === 1 });
      if (mayFail) failed += engine.errors.size;
      for (const [one, error] of mayFail ? [] : engine.errors) {
        expect(losesDevices(one)).toBe(true);
        expect(error).toBeInstanceOf(RequestLosesDeviceError);
        found += 1;
      }
      const counts = { ...engine.counts, ...engine.gpu.counts };
      totals.mostAhead = Math.max(totals.mostAhead, counts.mostAhead);
      for (const name of SUMMED) totals[name] += counts[name];
    }
    // All of it has happened, and often.
    expect(totals.mostAhead).toBe(2);
    for (const [name, count] of Object.entries(totals)) expect(count, name).toBeGreaterThan(1);
    expect(failed).toBeGreaterThan(1);
    expect(found).toBeGreaterThan(1);
  },
);
