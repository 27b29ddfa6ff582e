/**
 * What a step launches for its drafts, by what rows enter the network with and how drafts branch.
 *
 * @module
 */
import type { Plan } from "../../gpu/plan.ts";
import type { Step } from "../../layers/batch.ts";
import type { DraftNetwork } from "./draft_network.ts";
import {
  compileChain,
  compileProposal,
  type DraftOptions,
  enteringPart,
} from "./draft_proposal.ts";
import { compileOwnTrees, compileTrees } from "./tree_proposal.ts";

/**
 * Binds a network's launches, and adds those that nothing has to be drawn for.
 *
 * @returns What adds the others, behind the drawing of tokens.
 */
export function bindDrafts(
  plan: Plan<Step>,
  network: DraftNetwork,
  options: DraftOptions,
): () => void {
  const launches = network.bind(plan, options.target, options.tensors);
  const choice = { ...options, launches };
  const { trees } = options.tensors.drafts;
  if (network.enters === "next tokens") {
    return () =>
      trees === undefined ? compileProposal(plan, choice) : compileTrees(plan, choice, trees);
  }
  plan.within(enteringPart(), () => {
    plan.group("draft layers");
    launches.compileRows("step");
  });
  return () =>
    trees === undefined ? compileChain(plan, choice) : compileOwnTrees(plan, choice, trees);
}
