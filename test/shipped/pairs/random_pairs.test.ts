/**
 * Random schedules with real processes: two servers of either kind behind a router, requests of all kinds,
 * and faults. Each request is answered as by one server or ends with an error that says so.
 *
 * `WISP_CAMPAIGN=1` goes on where an earlier campaign was stopped, and keeps its counts in bench/results;
 * a larger number says how many schedules run side by side.
 */
import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { keepResult, keptResults } from "../support/pairs/kept_results.ts";
import {
  drawnSchedule,
  noCounts,
  runSchedule,
  type ScheduleCounts,
} from "../support/pairs/random_schedule.ts";
import type { Name, ServerName } from "../support/pairs/running_pair.ts";
import {
  type ComparedPair,
  comparedPair,
  EMBEDDED,
  serveAlone,
  tinyModel,
} from "../support/pairs/tiny_pair.ts";
import { stopAll } from "../support/wisp.ts";

const isFull = process.env.WISP_TEST_FULL === "1";
/** Schedules that run at once in a campaign; otherwise there is none. */
const lanes = Number(process.env.WISP_CAMPAIGN ?? 0);
const isCampaign = lanes > 0;
const RESULTS = fileURLToPath(
  new URL("../../../bench/results/disaggregation_schedules.json", import.meta.url),
);
const HOURS = 3_600_000;

const MODELS = ["one layer", "the embedded model"] as const;
type ModelName = (typeof MODELS)[number];
/** Of the servers of one. */
const NAMES: readonly ServerName[] = ["prefill", "decode", "prefill 2", "decode 2"];
/** Schedules of each. */
const AIMS: Readonly<Record<ModelName, number>> = {
  "one layer": isCampaign ? 1000 : isFull ? 40 : 2,
  "the embedded model": isCampaign ? 50 : isFull ? 4 : 0,
};

afterAll(stopAll);

test.each(MODELS.filter((name) => AIMS[name] > 0))(
  "%s: answers are those of one server, or errors that say so",
  async (name) => {
    const kept = isCampaign ? keptResults<ScheduleCounts>(RESULTS)[name] : undefined;
    const counts = { ...noCounts(), ...kept };
    const model = name === "one layer" ? await tinyModel() : EMBEDDED;
    const alone = serveAlone(model);
    // In short: one without a fault, one with.
    const short = isFull || isCampaign ? [] : shortSeeds();
    const seeds = [...counts.failures.map(({ seed }) => seed), ...short];
    counts.failures = [];
    const isOpen = () => counts.schedules + counts.failures.length < AIMS[name];
    const run = async () => {
      let compared: ComparedPair | undefined;
      while (isOpen()) {
        const seed = seeds.shift() ?? nextOf(counts);
        try {
          compared ??= await comparedPair({ model, names: NAMES }, alone);
          await runSchedule(compared, seed, counts);
        } catch (error) {
          // What it has left is no matter of the next one.
          counts.failures.push({ seed, problem: (error as Error).message });
          await compared?.pair.close();
          compared = undefined;
        }
        if (isCampaign) keepResult(RESULTS, name, counts);
      }
      await compared?.pair.close();
    };
    await Promise.all(Array.from({ length: Math.max(lanes, 1) }, run)).finally(stopAll);
    console.log(name, counts);
    expect(counts.failures).toEqual([]);
    expect(counts.endings["the answer"]).toBeGreaterThan(counts.requests / 3);
  },
  isCampaign ? 24 * HOURS : undefined,
);

function nextOf(counts: ScheduleCounts): number {
  counts.begun += 1;
  return counts.begun;
}

function shortSeeds(): readonly number[] {
  const names: readonly Name[] = ["router", ...NAMES];
  const seeds = Array.from({ length: 100 }, (_, i) => i + 1);
  const isCalm = (seed: number) => drawnSchedule(seed, names).faults.length === 0;
  const isKilled = (seed: number) =>
    drawnSchedule(seed, names).faults.some(
      ({ fault, name }) => fault === "killed" && name !== "router",
    );
  return [seeds.find(isCalm)!, seeds.find(isKilled)!];
}
