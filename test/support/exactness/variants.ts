/**
 * Variants of the exactness matrix: ways for an engine to come to the same answers.
 *
 * @module
 */
import { expect } from "vitest";
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import { fullTest } from "../devices/gpu.ts";
import type { Outcome } from "./exactness.ts";
import { LONGEST, SHORT } from "./models.ts";
import {
  besideAll,
  isCached,
  isMixed,
  isRetracted,
  isSaved,
  promptRows,
  stepsAhead,
  together,
} from "./proofs.ts";
import { crowded, HOST, SHARES_READS, TIGHT, type Variant } from "./variant.ts";

/** Several workgroups have queries of one key head. */
const ONE_HEAD = { ...PLAIN_TUNING, attention: { ...PLAIN_TUNING.attention!, rowHeads: 1 } };

const onBoth = (one: Outcome) => {
  expect(one.answeredBy).toEqual(new Set([0, 1]));
  expect(together(one)).toBe(16);
  isCached(one);
};
const ON_FOUR_RANKS: Variant = {
  name: "32 at once, on two replicas with two ranks each",
  requests: 32,
  twice: true,
  replicas: 2,
  options: { tensorParallelSize: 2 },
  proof: (one) => {
    expect(one.ranks).toBe(4);
    onBoth(one);
  },
};
const ON_EIGHT_RANKS: Variant = {
  name: "8 at once, on eight ranks",
  requests: 8,
  options: { tensorParallelSize: 8 },
  proof: (one) => {
    expect(one.ranks).toBe(8);
    besideAll(8)(one);
  },
};

export const VARIANTS: readonly Variant[] = [
  {
    name: "one by one, steps overlap",
    alone: true,
    proof: (one) => expect(stepsAhead(one)).toBeGreaterThan(0),
  },
  {
    name: "one by one, norms and writes folded, a head a workgroup, best tokens found in the output head",
    alone: true,
    options: { tuning: { ...ONE_HEAD, foldsNorms: true, findsBest: true } },
    proof: (one) => expect(together(one)).toBe(1),
  },
  { name: "32 at once", requests: 32, proof: besideAll(32) },
  {
    name: "8 at once, norms and writes folded into other launches",
    requests: 8,
    options: { tuning: { ...PLAIN_TUNING, foldsNorms: true } },
    proof: besideAll(8),
  },
  {
    name: "32 at once, steps do not overlap, launches are not kept",
    requests: 32,
    options: { overlapSchedule: false, decodeBuckets: false },
    proof: (one) => {
      besideAll(32)(one);
      expect(stepsAhead(one)).toBe(0);
      expect(one.keptRows).toEqual([]);
    },
  },
  {
    name: "launches kept for 7 and for 32 rows",
    requests: 10,
    options: { decodeBuckets: [7, 32] },
    proof: ({ keptRows }) => expect(new Set(keptRows)).toEqual(new Set([7, 32])),
  },
  {
    name: "two at a time, in small steps",
    options: { maxRunningRequests: 2, maxRowsPerStep: 10, pageSize: 3 },
    proof: (one) => expect([together(one), promptRows(one)]).toEqual([2, 10]),
  },
  {
    name: "chunks of 7, pages of 3",
    options: { chunkedPrefillSize: 7, pageSize: 3 },
    proof: (one) => expect(promptRows(one)).toBe(7),
  },
  {
    name: "mixed chunks",
    requests: 10,
    options: { mixedChunks: true, chunkedPrefillSize: 16 },
    proof: isMixed,
  },
  { name: "prompts cached, pages of 1", twice: true, proof: isCached },
  { name: "prompts cached, pages of 16", twice: true, options: { pageSize: 16 }, proof: isCached },
  {
    name: "asked twice, pages of 256",
    twice: true,
    options: { pageSize: 256 },
    // Whole pages are shared, and on the slow driver no prompt fills one.
    proof: LONGEST > 256 ? isCached : (one) => expect(one.answers.seeded).toHaveLength(2),
  },
  {
    name: "prompts cached, expanded in chunks",
    twice: true,
    options: { chunkedPrefixThreshold: 0, chunkedPrefillSize: 40 },
    proof: isCached,
  },
  {
    name: "retracted, computed again by rows that share reads",
    options: { ...TIGHT, tuning: SHARES_READS },
    proof: isRetracted,
  },
  { name: "retracted, kept in host memory", options: { ...TIGHT, ...HOST }, proof: isSaved },
  {
    name: "retracted without a prefix cache, computed again",
    options: { ...TIGHT, prefixCache: false },
    proof: isRetracted,
  },
  {
    name: "retracted without a prefix cache, brought back from host memory",
    options: { ...TIGHT, ...HOST, prefixCache: false },
    proof: (one) => {
      isSaved(one);
      expect(one.restores).toBeGreaterThan(0);
    },
  },
  {
    name: "an answer reused as part of a prompt",
    first: "greedy",
    oneForm: true,
    proof: ({ cachedTokens }) => expect(cachedTokens["second turn"]).toBeGreaterThan(SHORT),
  },
  {
    name: "the answer stands in the cache as part of another's prompt",
    first: "second turn",
    proof: ({ cachedTokens }) => expect(cachedTokens.greedy).toBeGreaterThan(0),
  },
  {
    name: "32 at once, on two ranks",
    requests: 32,
    twice: true,
    options: { tensorParallelSize: 2 },
    proof: (one) => {
      expect(one.ranks).toBe(2);
      besideAll(32)(one);
      isCached(one);
    },
  },
  {
    name: "32 at once, on two replicas by turns",
    requests: 32,
    twice: true,
    replicas: 2,
    proof: onBoth,
  },
  ...(fullTest ? [ON_FOUR_RANKS, ON_EIGHT_RANKS] : []),
  {
    name: "everything at once",
    requests: 10,
    twice: true,
    options: { ...crowded(0), ...HOST, mixedChunks: true },
    proof: (one) => {
      isMixed(one);
      isSaved(one);
    },
  },
];
