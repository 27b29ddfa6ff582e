/**
 * The choice of numbers of drafts that follow what drafts bring and cost.
 *
 * @module
 */
import { DraftLengthController } from "../../speculation/draft_length.ts";
import type { StepCosts } from "../../speculation/step_costs.ts";
import { AdaptiveModule, type AdaptiveModuleOptions } from "./adaptive_module.ts";
import { AdaptiveNgrams } from "./adaptive_ngrams.ts";
import type { DraftChoice } from "./draft_choice.ts";

/** @param options `most`: drafts that a step makes for one sequence at most; 0 where it makes none. */
export function adaptiveChoice(costs: StepCosts, options: AdaptiveModuleOptions): DraftChoice {
  if (options.most > 0) return new AdaptiveModule(new DraftLengthController(costs), options);
  return new AdaptiveNgrams(new DraftLengthController(costs, { probes: false }));
}
