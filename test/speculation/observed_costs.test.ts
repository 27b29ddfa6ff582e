/** What steps take is what they took, by kind and by rows, beside what was measured before the first one. */
import { describe, expect, test } from "vitest";
import { ObservedCosts } from "../../src/speculation/observed_costs.ts";
import { StepCost, type StepSize } from "../../src/speculation/step_costs.ts";

const NOTHING = new StepCost([]);
/** A step takes 1 and a tenth of a row; 0.5 more where nothing runs ahead. */
const TABLE = {
  target: new StepCost([1, 640].map((rows) => ({ rows, ms: 1 + rows / 10 }))),
  waiting: new StepCost([1, 640].map((rows) => ({ rows, ms: 0.5 * Math.max(rows / 640, 1) }))),
  entering: NOTHING,
  draft: NOTHING,
};
const ahead = (costs: ObservedCosts, rows: number) => costs.target.of(rows);
const alone = (costs: ObservedCosts, rows: number) =>
  costs.target.of(rows) + costs.waiting.of(rows);
const tableAlone = (rows: number) => TABLE.target.of(rows) + TABLE.waiting.of(rows);

const stepOf = (rows: number) => ({ sequences: 1, rows, longest: rows });

/** Costs behind so many steps of some rows that took so many times as long as the table says. */
function seen(costs: ObservedCosts, steps: number, rows: number, ratio: number, isAlone: boolean) {
  const table = isAlone ? tableAlone(rows) : TABLE.target.of(rows);
  for (let i = 0; i < steps; i++) costs.took(stepOf(rows), ratio * table, isAlone);
  return costs;
}

describe("what steps take", () => {
  test("is the table's before any has run, and stays it where they take that", () => {
    const costs = new ObservedCosts(TABLE);
    for (const isAlone of [false, true]) seen(costs, 50, 8, 1, isAlone);
    for (const rows of [0, 1, 4, 8, 100]) {
      expect(ahead(costs, rows)).toBeCloseTo(TABLE.target.of(rows), 9);
      expect(alone(costs, rows)).toBeCloseTo(tableAlone(rows), 9);
    }
  });

  test.each([0.5, 1.5, 2.5])("is %f times that soon where they do, of each kind", (ratio) => {
    const costs = new ObservedCosts(TABLE);
    for (let i = 0; i < 10; i++) {
      seen(costs, 5, 1, ratio, false);
      seen(costs, 5, 8, 1, true);
    }
    expect(ahead(costs, 1) / (ratio * TABLE.target.of(1))).toBeCloseTo(1, 1);
    expect(alone(costs, 8) / Math.max(tableAlone(8), ahead(costs, 8))).toBeCloseTo(1, 1);
  });

  test("is known of sizes that had no step by others of their kind", () => {
    const costs = seen(new ObservedCosts(TABLE), 60, 4, 2, true);
    seen(costs, 200, 4, 2.5, true);
    expect(alone(costs, 12) / tableAlone(12)).toBeGreaterThan(1.4);
  });

  test("is each size's own where sizes differ", () => {
    const costs = new ObservedCosts(TABLE);
    for (let i = 0; i < 200; i++) {
      for (const [rows, ratio] of [
        [3, 0.5],
        [4, 1.6],
        [200, 2],
      ] as const) {
        seen(costs, 1, rows, ratio, false);
      }
    }
    expect(ahead(costs, 3) / TABLE.target.of(3)).toBeCloseTo(0.5, 1);
    expect(ahead(costs, 4) / TABLE.target.of(4)).toBeCloseTo(1.6, 1);
    // Of many rows those of about as many.
    for (const rows of [195, 250])
      expect(ahead(costs, rows) / TABLE.target.of(rows)).toBeCloseTo(2, 1);
  });

  test("follows a machine that has become slower, and is fast again", () => {
    const costs = seen(new ObservedCosts(TABLE), 200, 2, 1, false);
    expect(ahead(seen(costs, 50, 2, 2, false), 2) / TABLE.target.of(2)).toBeCloseTo(2, 1);
    expect(ahead(seen(costs, 50, 2, 1, false), 2) / TABLE.target.of(2)).toBeCloseTo(1, 1);
  });

  test("is the average of steps that end in bursts, and tells nothing of other kinds", () => {
    const costs = seen(new ObservedCosts(TABLE), 20, 8, 1, true);
    const before = alone(costs, 8);
    for (let i = 0; i < 4000; i++) seen(costs, 1, 1, [2.5, 1.1, 0.25, 0.15][i % 4]!, false);
    expect(ahead(costs, 1) / TABLE.target.of(1)).toBeGreaterThan(0.85);
    expect(ahead(costs, 1) / TABLE.target.of(1)).toBeLessThan(1.15);
    expect(alone(costs, 8) / before).toBeGreaterThan(0.9);
    expect(alone(costs, 8) / before).toBeLessThan(1.1);
  });

  test("is that of the rows that are computed, where steps are filled up", () => {
    const computed = (step: StepSize) => step.sequences * step.longest;
    const costs = new ObservedCosts({ ...TABLE, computed });
    for (let i = 0; i < 200; i++) {
      costs.took({ sequences: 4, rows: 5, longest: 2 }, 2 * TABLE.target.of(8), false);
      costs.took({ sequences: 5, rows: 5, longest: 1 }, TABLE.target.of(5), false);
    }
    expect(ahead(costs, 8) / TABLE.target.of(8)).toBeCloseTo(2, 1);
    expect(ahead(costs, 5) / TABLE.target.of(5)).toBeCloseTo(1, 1);
  });

  test("changes little by one step that took very long, and not by what is no time", () => {
    const costs = seen(new ObservedCosts(TABLE), 50, 2, 1, false);
    seen(costs, 1, 2, 10_000, false);
    expect(ahead(costs, 2) / TABLE.target.of(2)).toBeLessThan(1.4);
    const before = ahead(costs, 2);
    for (const ms of [Number.NaN, -1]) costs.took(stepOf(2), ms, false);
    costs.took(stepOf(0), 5, false);
    expect(ahead(costs, 2)).toBe(before);
  });

  test("is never nothing, and nothing runs ahead for less than with steps ahead", () => {
    const costs = seen(new ObservedCosts(TABLE), 1000, 2, 0, true);
    expect(alone(costs, 2)).toBeGreaterThan(0);
    expect(costs.waiting.of(2)).toBeGreaterThanOrEqual(0);
    expect(ahead(costs, 1)).toBeGreaterThan(0);
  });
});
