/**
 * Variants of the exactness matrix whose steps are cut into two micro-batches that compute side by side.
 *
 * @module
 */
import { expect } from "vitest";
import type { Outcome } from "./exactness.ts";
import {
  isCached,
  isDrafted,
  isDraftedByModule,
  isDraftedByTrees,
  isMixed,
  isSaved,
} from "./proofs.ts";
import { HOST, TIGHT, type Variant } from "./variant.ts";

const BASE = { tensorParallelSize: 2, twoBatchOverlap: true } as const;

/** Steps of generated rows and of prompts were. */
function isCut({ cut, ranks }: Outcome): void {
  expect(ranks).toBeGreaterThan(1);
  expect(cut.length).toBeGreaterThan(0);
  for (const [first, second] of cut) expect(first! * second!).toBeGreaterThan(0);
}

const isCutAnd = (proof: (one: Outcome) => void) => (one: Outcome) => {
  isCut(one);
  proof(one);
};

/** Batches of several groups were, and there were steps in which one group's was and another's was not. */
const isCutInGroupsAnd = (proof: (one: Outcome) => void) => (one: Outcome) => {
  expect(one.answeredBy.size).toBe(2);
  expect(one.cut.some(([first, second]) => first! * second! > 0)).toBe(true);
  expect(one.cut.some(([, second]) => second === 0)).toBe(true);
  proof(one);
};

export const OVERLAP_VARIANTS: readonly Variant[] = [
  {
    name: "32 at once, two batches overlap",
    requests: 32,
    twice: true,
    options: BASE,
    proof: isCutAnd((one) => {
      isCached(one);
      expect(one.keptRows.length).toBeGreaterThan(0);
    }),
  },
];

/** Those that `npm run test:drivers` has. */
export const LONG_OVERLAP_VARIANTS: readonly Variant[] = [
  {
    name: "two batches overlap, prompts in chunks beside answers",
    requests: 32,
    options: { ...BASE, mixedChunks: true, chunkedPrefillSize: 32, pageSize: 4 },
    proof: isCutAnd(isMixed),
  },
  {
    name: "two batches overlap, 4 ranks, copies of experts, rows added up by one",
    requests: 32,
    options: {
      ...{ ...BASE, tensorParallelSize: 4, mixedChunks: true },
      experts: { redundant: 4, dispatch: "dynamic", allToAll: "auto" },
    },
    proof: isCut,
  },
  {
    name: "two batches overlap, experts move",
    requests: 32,
    options: {
      ...BASE,
      experts: { redundant: 4, rebalance: { everySteps: 7, minBalancedness: 1 } },
    },
    proof: isCut,
  },
  {
    name: "two batches overlap, to host memory",
    options: { ...BASE, ...TIGHT, ...HOST },
    proof: isCutAnd(isSaved),
  },
  {
    name: "two batches overlap, drafts verified",
    requests: 12,
    drafts: true,
    options: BASE,
    proof: isCutAnd(isDrafted),
  },
  {
    name: "two batches overlap, drafts of the module",
    requests: 12,
    drafts: "module",
    options: { ...BASE, chunkedPrefillSize: 32 },
    proof: isCutAnd(isDraftedByModule),
  },
  {
    name: "two batches overlap, trees of the module",
    requests: 12,
    drafts: "trees",
    options: BASE,
    proof: isCutAnd(isDraftedByTrees),
  },
  {
    name: "two batches overlap in 2 groups",
    requests: 32,
    twice: true,
    groups: 2,
    options: BASE,
    proof: isCutInGroupsAnd(isCached),
  },
  {
    name: "two batches overlap in 2 groups of 4 ranks, chunks, copies of experts, rows added up by one",
    requests: 16,
    groups: 2,
    options: {
      ...{ ...BASE, tensorParallelSize: 4, mixedChunks: true, chunkedPrefillSize: 32 },
      experts: { redundant: 4, dispatch: "dynamic", allToAll: "normal" },
    },
    proof: isCutInGroupsAnd(isMixed),
  },
  {
    name: "two batches overlap in 2 groups, trees of the module, retracted to host memory",
    requests: 12,
    drafts: "trees",
    groups: 2,
    options: { ...BASE, ...TIGHT, ...HOST, headByGroup: true },
    proof: isCutInGroupsAnd((one) => {
      isSaved(one);
      isDraftedByTrees(one);
    }),
  },
  {
    name: "two batches overlap, drafts of a head that reads layers",
    requests: 12,
    drafts: "EAGLE3",
    options: BASE,
    proof: isCutAnd(isDraftedByModule),
  },
];
