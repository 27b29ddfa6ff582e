/**
 * Variants of the exactness matrix in which groups of ranks attend to different requests.
 *
 * @module
 */
import { expect } from "vitest";
import {
  isCached,
  isDraftedByModule,
  isDraftedByTrees,
  isMixed,
  isSaved,
  together,
} from "./proofs.ts";
import { HOST, TIGHT, type Variant } from "./variant.ts";

/** Requests of all kinds, shared out among groups that share the ranks. */
const inGroups = (
  groups: number,
  ranks: number,
  { name, ...options }: Variant["options"] & { readonly name?: string } = {},
): Variant => ({
  name: `${groups} groups, ${ranks} ranks${name ?? ""}`,
  requests: 32,
  twice: true,
  groups,
  options: { tensorParallelSize: ranks, ...options },
  proof: (one) => {
    expect(one.ranks).toBe(ranks);
    expect(one.answeredBy.size).toBe(groups);
    expect(together(one)).toBe(32 / groups);
    isCached(one);
  },
});

export const GROUP_VARIANTS: readonly Variant[] = [inGroups(2, 2)];

/** Those that `npm run test:drivers` has. */
export const LONG_GROUP_VARIANTS: readonly Variant[] = [
  inGroups(4, 4, {
    name: ", copies of experts, prompts' rows added up by one",
    experts: { redundant: 4, dispatch: "dynamic", allToAll: "auto" },
  }),
  inGroups(2, 2, { name: ", rows added up by one", experts: { allToAll: "normal" } }),
  inGroups(2, 4, { name: ", each with a head", headByGroup: true }),
  inGroups(2, 2, { name: ", all but experts whole", headByGroup: true, wholeDenseLayers: true }),
  {
    name: "alone in one of 2 groups",
    alone: true,
    groups: 2,
    options: { tensorParallelSize: 2 },
    proof: (one) => expect(together(one)).toBe(1),
  },
  {
    name: "2 groups, 4 ranks, drafts of the module",
    requests: 12,
    drafts: "module",
    groups: 2,
    options: { tensorParallelSize: 4, mixedChunks: true, chunkedPrefillSize: 32 },
    proof: (one) => {
      expect(one.answeredBy.size).toBe(2);
      isMixed(one);
      isDraftedByModule(one);
    },
  },
  {
    name: "2 groups, drafts of a head",
    drafts: "EAGLE",
    groups: 2,
    options: { tensorParallelSize: 2 },
    proof: isDraftedByModule,
  },
  {
    name: "2 groups, trees of the module",
    requests: 12,
    drafts: "trees",
    groups: 2,
    options: { tensorParallelSize: 2, mixedChunks: true, chunkedPrefillSize: 32 },
    proof: (one) => {
      expect(one.answeredBy.size).toBe(2);
      isMixed(one);
      isDraftedByTrees(one);
    },
  },
  {
    name: "one by one in 2 groups of 4 ranks, large trees of the module",
    alone: true,
    drafts: "large trees",
    groups: 2,
    options: { tensorParallelSize: 4 },
    proof: isDraftedByTrees,
  },
  {
    name: "2 groups, trees of a head",
    drafts: "EAGLE trees",
    groups: 2,
    options: { tensorParallelSize: 2 },
    proof: isDraftedByTrees,
  },
  {
    name: "2 groups, 4 ranks, drafts of another model",
    requests: 12,
    drafts: "model",
    groups: 2,
    options: { tensorParallelSize: 4, mixedChunks: true, chunkedPrefillSize: 32 },
    proof: (one) => {
      expect(one.answeredBy.size).toBe(2);
      isMixed(one);
      isDraftedByModule(one);
    },
  },
  {
    name: "2 groups, trees of another model's drafts, asked twice, kept in host memory",
    requests: 12,
    twice: true,
    drafts: "model trees",
    groups: 2,
    options: { ...TIGHT, ...HOST, tensorParallelSize: 2 },
    proof: (one) => {
      isSaved(one);
      isDraftedByTrees(one);
    },
  },
];
