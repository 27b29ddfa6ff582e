/**
 * What mixtures of experts have in common, and how large they may be.
 *
 * @module
 */

/** Sizes from which on a kernel does not fit into a workgroup's memory. */
export const MAX_EXPERTS = 1024;
export const MAX_EXPERTS_PER_TOKEN = 64;
export const MAX_EXPERT_GROUPS = 64;

/** The best of a softmax over all experts, none of them shared. */
export const SOFTMAX_ROUTER = {
  shared: 0,
  scoring: "softmax",
  selection: "greedy",
  groups: 1,
  groupsKept: 1,
  scalingFactor: 1,
} as const;
