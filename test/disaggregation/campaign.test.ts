/** Random schedules of requests, faults and delays: no hang, no wrong page, nothing left. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { CampaignCounts } from "../support/disaggregation_campaign.ts";
import { SteppedClock } from "../support/simulated/stepped_clock.ts";

const isFull = process.env.WISP_TEST_FULL === "1";
const SCHEDULES = isFull ? 100_000 : 2000;

const clock = new SteppedClock();
beforeAll(() => clock.install());
afterAll(() => clock.restore());

test(`${SCHEDULES} schedules end on both sides`, async () => {
  const counts = new CampaignCounts();
  for (let seed = 1; seed <= SCHEDULES; seed++) await counts.run(seed, clock);
  expect(counts.failures).toEqual([]);
  const { right, failed, calm, longest } = counts;
  console.log({ right, failed, calm, longest });
  expect(right).toBeGreaterThan(SCHEDULES / 2);
  expect(failed).toBeGreaterThan(SCHEDULES / 10);
  expect(calm).toBeGreaterThan(SCHEDULES / 50);
}, 1_800_000);
