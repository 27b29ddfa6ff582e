/**
 * What random schedules of simulated engines are drawn from.
 *
 * @module
 */
import { StepCost, type StepCosts, type StepSize } from "../../../src/speculation/step_costs.ts";
import type { SimulatedOptions } from "./simulated_engine.ts";

/** Draws whole numbers below its argument. */
export type Random = (below: number) => number;

/** Generator: Numerical Recipes' linear congruential one. */
export function seeded(seed: number): Random {
  let state = seed * 7919;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** Of steps whose drafts pay, or do not, or only now and then: a row takes so much more. */
function costsOf(row: number): StepCosts {
  const cost = (first: number, more: number) =>
    new StepCost([1, 64].map((rows) => ({ rows, ms: first + more * (rows - 1) })));
  return { target: cost(10, row), entering: cost(1, row / 4), draft: cost(1, 0.1) };
}

/** Rows of steps that have as many of each sequence as the longest has. */
const filledUp = ({ sequences, longest }: StepSize) => sequences * longest;

/** Drafts of n-grams, of steps, or none: chains and trees, as many as can be and as many as pay. */
export function randomDrafts(random: Random, contextLength: number): Partial<SimulatedOptions> {
  const all: Partial<SimulatedOptions>[] = [
    { maxDrafts: 0 },
    { maxDrafts: 1 },
    { maxDrafts: 3 },
    { maxDrafts: 7 },
    { maxDrafts: 3, draftSteps: 3 },
    { maxDrafts: 2, draftSteps: 5, contextLength },
    { maxDrafts: 3, draftSteps: 3, costs: costsOf(random(12)) },
    { maxDrafts: 7, costs: costsOf(random(12)) },
    { maxDrafts: 7, costs: { ...costsOf(random(12)), computed: filledUp } },
    { maxDrafts: 5, draftSteps: 3, tree: { steps: 3, topk: 2, draftTokens: 6 } },
    {
      ...{ maxDrafts: 7, draftSteps: 2, contextLength },
      tree: { steps: 2, topk: 4, draftTokens: 8 },
    },
  ];
  return all[random(all.length)]!;
}
