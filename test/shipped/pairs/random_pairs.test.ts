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
import type { RunningPair } from "../support/pairs/running_pair.ts";
import { comparedPair, EMBEDDED, tinyModel } from "../support/pairs/tiny_pair.ts";
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
    const pairs: RunningPair[] = [];
    const run = async () => {
      const names = ["prefill", "decode", "prefill 2", "decode 2"] as const;
      const compared = await comparedPair({ model, names });
      pairs.push(compared.pair);
      // In short: one without a fault, one with.
      const seeds = isFull || isCampaign ? undefined : shortSeeds(compared.pair);
      while (counts.schedules < AIMS[name]) {
        const seed = seeds?.[counts.schedules] ?? counts.begun + 1;
        counts.begun += 1;
        await runSchedule(compared, seed, counts);
        if (isCampaign) keepResult(RESULTS, name, counts);
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.max(lanes, 1) }, run));
    } finally {
      await stopAll();
      for (const pair of pairs) await pair.close();
    }
    console.log(name, counts);
    expect(counts.failures).toEqual([]);
    expect(counts.endings["the answer"]).toBeGreaterThan(counts.requests / 3);
  },
  isCampaign ? 24 * HOURS : undefined,
);

function shortSeeds({ names }: RunningPair): readonly number[] {
  const seeds = Array.from({ length: 100 }, (_, i) => i + 1);
  const isCalm = (seed: number) => drawnSchedule(seed, names).faults.length === 0;
  const isKilled = (seed: number) =>
    drawnSchedule(seed, names).faults.some(
      ({ fault, name }) => fault === "killed" && name !== "router",
    );
  return [seeds.find(isCalm)!, seeds.find(isKilled)!];
}
