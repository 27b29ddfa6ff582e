/** Random schedules of requests, faults and delays: no hang, no wrong page, nothing left. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { runSchedule } from "../support/disaggregation_campaign.ts";

const isFull = process.env.WISP_TEST_FULL === "1";
const SCHEDULES = isFull ? 100_000 : 250;

beforeAll(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
});
afterAll(() => vi.useRealTimers());

const clock = {
  advance: async (milliseconds: number) => {
    await vi.advanceTimersByTimeAsync(milliseconds);
  },
  timers: () => vi.getTimerCount(),
};

test(
  `${SCHEDULES} schedules end on both sides`,
  async () => {
    const seen = { right: 0, failed: 0, calm: 0 };
    for (let seed = 1; seed <= SCHEDULES; seed++) {
      const { endings, isCalm, took, left } = await runSchedule(seed, clock);
      expect(left, `seed ${seed}`).toEqual([0, 0, 0, 0, 0]);
      // Within the longest of the deadlines, and the signs of life that may be missing.
      expect(took, `seed ${seed}`).toBeLessThan(11_000);
      for (const [, decode] of endings) seen[decode] += 1;
      if (!isCalm) continue;
      seen.calm += 1;
      expect(new Set(endings.flat()), `seed ${seed}`).toEqual(new Set(["right"]));
    }
    expect(seen.right).toBeGreaterThan(SCHEDULES / 2);
    expect(seen.failed).toBeGreaterThan(SCHEDULES / 10);
    expect(seen.calm).toBeGreaterThan(SCHEDULES / 50);
  },
  isFull ? 3_600_000 : 60_000,
);
