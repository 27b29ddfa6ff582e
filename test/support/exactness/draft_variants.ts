/**
 * Variants of the exactness matrix whose steps verify drafts.
 *
 * @module
 */
import { expect } from "vitest";
import { StepCost } from "../../../src/speculation/step_costs.ts";
import {
  besideAll,
  isDrafted,
  isDraftedByModule,
  isDraftedByTrees,
  isMixed,
  isRetracted,
  isSaved,
  steps,
  together,
} from "./proofs.ts";
import { crowded, HOST, SHARES_READS, TIGHT, type Variant } from "./variant.ts";

/** Of steps in which right drafts pay. */
const PAYING = {
  target: new StepCost([1, 64].map((rows) => ({ rows, ms: 10 + rows }))),
  entering: new StepCost([{ rows: 64, ms: 0.5 }]),
  draft: new StepCost([{ rows: 64, ms: 0.2 }]),
};

/**
 * Rows beyond ten take nearly nothing, so that drafts pay that are right now and then, and steps ahead
 * take as long as they have rows, so that those without drafts do not keep the others from waiting.
 */
const PAYING_SELDOM = {
  ...PAYING,
  target: new StepCost([
    { rows: 1, ms: 1 },
    { rows: 10, ms: 10 },
    { rows: 64, ms: 11 },
  ]),
};

export const DRAFT_VARIANTS: readonly Variant[] = [
  { name: "one by one, with drafts", alone: true, drafts: true, proof: isDrafted },
  {
    name: "32 at once, with drafts",
    requests: 32,
    drafts: true,
    proof: (one) => {
      besideAll(32)(one);
      isDrafted(one);
    },
  },
  {
    name: "with drafts, rows share reads, launches are not kept",
    drafts: true,
    options: { tuning: SHARES_READS, decodeBuckets: false, pageSize: 16 },
    proof: isDrafted,
  },
  {
    name: "with drafts, mixed chunks, steps of 10 rows",
    drafts: true,
    options: { mixedChunks: true, maxRunningRequests: 3, maxRowsPerStep: 10, pageSize: 3 },
    proof: (one) => {
      isMixed(one);
      expect(steps(one).some(({ draftRows }) => draftRows > 0)).toBe(true);
    },
  },
  {
    name: "with drafts, retracted, kept in host memory",
    drafts: true,
    options: { ...crowded(0), ...HOST },
    proof: isSaved,
  },
  {
    name: "with drafts, retracted, computed again",
    drafts: true,
    options: { ...crowded(0), prefixCache: false },
    proof: isRetracted,
  },
  {
    name: "one by one, drafts of the module",
    alone: true,
    drafts: "module",
    proof: isDraftedByModule,
  },
  {
    name: "32 at once, drafts of the module",
    requests: 32,
    drafts: "module",
    proof: (one) => {
      // With drafts the first answer may be whole before the last prompt is.
      expect(together(one)).toBeGreaterThanOrEqual(31);
      isDraftedByModule(one);
    },
  },
  { name: "one by one, trees of drafts", alone: true, drafts: "trees", proof: isDraftedByTrees },
  { name: "one by one, drafts of a head", alone: true, drafts: "EAGLE", proof: isDraftedByModule },
  {
    name: "32 at once, asked twice, drafts of a head, in mixed steps and pages of 3",
    requests: 32,
    twice: true,
    drafts: "EAGLE",
    options: { mixedChunks: true, chunkedPrefillSize: 16, pageSize: 3 },
    proof: (one) => {
      isMixed(one);
      isDraftedByModule(one);
    },
  },
  {
    name: "one by one, drafts of a head that reads three layers",
    alone: true,
    drafts: "EAGLE3",
    proof: isDraftedByModule,
  },
  {
    name: "drafts of a head that reads three layers, retracted, kept in host memory",
    drafts: "EAGLE3",
    twice: true,
    options: { ...crowded(0), ...HOST },
    proof: (one) => {
      isSaved(one);
      isDraftedByModule(one);
    },
  },
];

/** Those that `npm run test:drivers` has. */
export const LONG_DRAFT_VARIANTS: readonly Variant[] = [
  {
    name: "drafts of the module, retracted, kept in host memory",
    drafts: "module",
    options: { ...crowded(0), ...HOST },
    proof: (one) => {
      isSaved(one);
      isDraftedByModule(one);
    },
  },
  {
    name: "32 at once, large trees of drafts, pages of 16",
    requests: 32,
    drafts: "large trees",
    options: { pageSize: 16 },
    proof: (one) => {
      besideAll(32)(one);
      isDraftedByTrees(one);
    },
  },
  {
    name: "mixed chunks, trees of drafts, pages of 64",
    requests: 10,
    drafts: "trees",
    options: { mixedChunks: true, chunkedPrefillSize: 16, pageSize: 64 },
    proof: (one) => {
      isMixed(one);
      isDraftedByTrees(one);
    },
  },
  {
    name: "trees of drafts, retracted, kept in host memory",
    drafts: "trees",
    options: { ...TIGHT, ...HOST },
    proof: (one) => {
      isSaved(one);
      isDraftedByTrees(one);
    },
  },
  {
    name: "trees of drafts, retracted, computed again",
    drafts: "trees",
    options: { ...TIGHT, prefixCache: false },
    proof: (one) => {
      isRetracted(one);
      isDraftedByTrees(one);
    },
  },
  {
    name: "32 at once, trees of a head's drafts, in mixed steps and pages of 3",
    requests: 32,
    twice: true,
    drafts: "EAGLE trees",
    options: { mixedChunks: true, chunkedPrefillSize: 16, pageSize: 3 },
    proof: (one) => {
      isMixed(one);
      isDraftedByTrees(one);
    },
  },
  {
    name: "one by one, trees of a head that reads three layers",
    alone: true,
    drafts: "EAGLE3 trees",
    proof: isDraftedByTrees,
  },
  {
    name: "trees of a head that reads three layers, retracted, kept in host memory",
    drafts: "EAGLE3 trees",
    twice: true,
    options: { ...TIGHT, ...HOST },
    proof: (one) => {
      isSaved(one);
      isDraftedByTrees(one);
    },
  },
  {
    name: "on four ranks, with drafts, retracted, kept in host memory",
    drafts: true,
    options: { ...crowded(0), ...HOST, tensorParallelSize: 4 },
    proof: (one) => {
      expect(one.ranks).toBe(4);
      isSaved(one);
      expect(one.restores).toBeGreaterThan(0);
    },
  },
  {
    name: "on two ranks, drafts of the module, asked twice",
    twice: true,
    drafts: "module",
    options: { tensorParallelSize: 2 },
    proof: isDraftedByModule,
  },
  {
    name: "on four ranks, trees of drafts, retracted, kept in host memory",
    drafts: "trees",
    options: { ...TIGHT, ...HOST, tensorParallelSize: 4 },
    proof: (one) => {
      expect(one.ranks).toBe(4);
      isSaved(one);
      isDraftedByTrees(one);
    },
  },
  {
    name: "on two ranks, drafts of a head",
    drafts: "EAGLE",
    options: { tensorParallelSize: 2 },
    proof: isDraftedByModule,
  },
  {
    name: "on two ranks, trees of a head that reads three layers",
    drafts: "EAGLE3 trees",
    options: { tensorParallelSize: 2 },
    proof: isDraftedByTrees,
  },
  {
    name: "on two ranks, trees of another model's drafts",
    drafts: "model trees",
    options: { tensorParallelSize: 2 },
    proof: isDraftedByTrees,
  },
  {
    name: "one by one, drafts of another model",
    alone: true,
    drafts: "model",
    proof: isDraftedByModule,
  },
  {
    name: "32 at once, drafts of another model, in mixed steps and pages of 3",
    requests: 32,
    drafts: "model",
    options: { mixedChunks: true, chunkedPrefillSize: 16, pageSize: 3 },
    proof: isDraftedByModule,
  },
  {
    name: "drafts of another model, cached, retracted, kept in host memory",
    drafts: "model",
    twice: true,
    options: { ...crowded(0), ...HOST },
    proof: (one) => {
      isSaved(one);
      isDraftedByModule(one);
    },
  },
  {
    name: "32 at once, trees of another model's drafts, in mixed steps and pages of 3",
    requests: 32,
    drafts: "model trees",
    options: { mixedChunks: true, chunkedPrefillSize: 16, pageSize: 3 },
    proof: isDraftedByTrees,
  },
  {
    name: "trees of another model's drafts, retracted, kept in host memory",
    drafts: "model trees",
    twice: true,
    options: { ...crowded(0), ...HOST },
    proof: (one) => {
      isSaved(one);
      isDraftedByTrees(one);
    },
  },
  {
    name: "10 at once, as many drafts of the module as pay",
    requests: 10,
    twice: true,
    drafts: "module",
    costs: PAYING,
    proof: (one) => {
      isDraftedByModule(one);
      // Those of random prompts are refused, and it is left out.
      expect(new Set(one.entering)).toEqual(new Set([true, false]));
    },
  },
  {
    name: "10 at once, as many drafts of another model as pay",
    requests: 10,
    twice: true,
    drafts: "model",
    costs: PAYING,
    proof: isDraftedByModule,
  },
  {
    name: "10 at once, as many drafts of others as pay",
    requests: 10,
    twice: true,
    drafts: true,
    costs: PAYING_SELDOM,
    proof: (one) => {
      const counts = steps(one).map(({ draftRows }) => draftRows);
      expect(counts.some((count) => count > 0)).toBe(true);
    },
  },
];
