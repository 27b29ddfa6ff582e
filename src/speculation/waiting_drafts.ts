/**
 * Which sequences wait for drafts of the host.
 *
 * One that waits has no row in the step that the others run ahead in, and where all of them wait
 * nothing runs ahead. So two steps of the others bring it one step's tokens, drafts among them.
 *
 * @module
 */
import { candidatesOf, type DraftingSequence } from "./draft_history.ts";
import { ExpectedStep } from "./expected_step.ts";
import { computedRows, plainStep, type StepCosts } from "./step_costs.ts";

const LEAST_GAIN = 0.05;
/** Less probable drafts are nowhere worth a row, nor the time to weigh them. */
const LEAST_PROBABLE = 0.02;

/**
 * Of several sequences with drafts, those that clearly gain if they wait: each of them that would
 * with all others ahead, or all, whichever is better.
 *
 * @param others Sequences without drafts, which run ahead.
 * @param leastGain What waiting has to bring each, as a share of its tokens. Default: what the host's own
 * work between two steps may take, which is not timed.
 * @returns Their numbers.
 */
export function whoWaits(
  costs: StepCosts,
  sequences: readonly DraftingSequence[],
  others: number,
  leastGain = LEAST_GAIN,
): ReadonlySet<number> {
  const all = sequences.length + others;
  const plain = all / costs.target.of(computedRows(costs, plainStep(all)));
  /** By how much some gain, beyond the least of each. */
  const gainOf = (waiting: readonly DraftingSequence[]) => {
    const gain = rateWaiting(costs, waiting, all) / plain - 1;
    return gain - (leastGain * waiting.length) / all;
  };
  const numbers = sequences.map((_, i) => i);
  const gaining = numbers.filter((i) => gainOf([sequences[i]!]) > 0);
  const some = gainOf(gaining.map((i) => sequences[i]!));
  const together = gaining.length < sequences.length ? gainOf(sequences) : 0;
  if (Math.max(some, together) <= 0) return new Set();
  return new Set(together > some ? numbers : gaining);
}

/** Tokens a millisecond of a step with the best drafts of some, and one ahead of it without them. */
function rateWaiting(costs: StepCosts, waiting: readonly DraftingSequence[], all: number): number {
  const ahead = all - waiting.length;
  const step = new ExpectedStep(costs, all, { plainRows: all, runsAlone: ahead === 0 });
  const msAhead = costs.target.of(computedRows(costs, plainStep(ahead)));
  let best = 0;
  for (const draft of candidatesOf(waiting, LEAST_PROBABLE)) {
    step.add(draft);
    best = Math.max(best, (ahead + step.tokens) / (msAhead + step.ms));
  }
  return best;
}
