/**
 * What a run of the exactness matrix shows of how it came to its answers.
 *
 * @module
 */
import { expect } from "vitest";
import type { Outcome } from "./exactness.ts";
import { LONGEST, TOKENS } from "./models.ts";

const largest = (values: readonly number[]) => Math.max(...values);
export const steps = ({ watch }: Outcome) => watch.steps;
export const together = (one: Outcome) =>
  largest(steps(one).map(({ requestIds }) => requestIds.length));
export const promptRows = (one: Outcome) => largest(steps(one).map((step) => step.promptRows));
export const stepsAhead = (one: Outcome) => largest(steps(one).map(({ ahead }) => ahead));

export const besideAll = (count: number) => (one: Outcome) => {
  for (const id of Object.keys(one.answers)) expect(one.watch.mostBeside(id)).toBe(count);
};
export const isMixed = (one: Outcome) => {
  const mixed = steps(one).filter((step) => step.promptRows > 0 && step.generatedRows > 0);
  expect(mixed.length).toBeGreaterThan(0);
};
export const isCached = ({ cachedTokens }: Outcome) => {
  expect(cachedTokens.seeded).toBeGreaterThan(LONGEST / 2);
};
export const isRetracted = ({ retractions, saves }: Outcome) => {
  expect(retractions).toBeGreaterThan(0);
  expect(saves).toBe(0);
};
/** Drafts were verified, of which some were right: there are fewer steps than tokens. */
export const isDrafted = (one: Outcome) => {
  const drafted = steps(one).filter(({ draftRows }) => draftRows > 0);
  expect(drafted.length).toBeGreaterThan(0);
  const rounds = (id: string) =>
    steps(one).filter((step) => step.requestIds.includes(id) && step.promptRows === 0).length;
  expect(rounds("greedy")).toBeLessThan(TOKENS - 1);
};
/** Of prompts at random, whose answers the module seldom foresees. */
export const isDraftedByModule = (one: Outcome) => {
  expect(steps(one).some(({ draftRows }) => draftRows > 0)).toBe(true);
};
/** Some nodes of theirs have siblings. */
export const isDraftedByTrees = (one: Outcome) => {
  expect(steps(one).some(({ hasTrees }) => hasTrees)).toBe(true);
};
export const isSaved = ({ retractions, saves }: Outcome) => {
  expect(retractions).toBeGreaterThan(0);
  expect(saves).toBeGreaterThan(0);
};
