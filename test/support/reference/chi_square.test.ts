import { expect, test } from "vitest";
import { chiSquare, pValue, sumOf } from "./chi_square.ts";

test.each([
  // Quantiles as tables print them.
  [1, 3.841458820694124, 0.05],
  [10, 18.307038053275146, 0.05],
  [100, 124.34211340400407, 0.05],
  // With two degrees of freedom it is exp(-statistic / 2).
  [2, 1, Math.exp(-0.5)],
  [2, 40, Math.exp(-20)],
  // With four, (1 + x) exp(-x) of half the statistic.
  [4, 0.5, 1.25 * Math.exp(-0.25)],
  [4, 100, 51 * Math.exp(-50)],
])("pValue with %i degrees of freedom at %f", (freedom, statistic, want) => {
  expect(pValue({ freedom, statistic }) / want).toBeCloseTo(1, 10);
});

test("chiSquare pools what is rare, and takes no count of what cannot come", () => {
  expect(chiSquare([30, 70], [0.25, 0.75])).toEqual({ statistic: 1 + 1 / 3, freedom: 1 });
  const pooled = chiSquare([96, 1, 2, 1], [0.96, 0.02, 0.01, 0.01]);
  expect(pooled.freedom).toBe(1);
  expect(pooled.statistic).toBeCloseTo(0, 10);
  expect(pValue(chiSquare([99, 1], [1, 0]))).toBe(0);
  expect(pValue(chiSquare([100, 0], [1, 0]))).toBe(1);
  expect(sumOf([chiSquare([30, 70], [0.25, 0.75]), pooled]).freedom).toBe(2);
});
