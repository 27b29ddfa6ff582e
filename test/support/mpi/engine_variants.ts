/**
 * How engines whose ranks are processes come to their answers: each way shows that it has happened.
 *
 * @module
 */
import { expect } from "vitest";
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import type { EngineAnswers, EngineTask } from "./engine_answers.ts";

export const BASE = {
  ...{ maxTotalTokens: 512, contextLength: 256, maxRowsPerStep: 64, pageSize: 4 },
  ...{ chunkedPrefillSize: 32, maxRunningRequests: 4 },
} as const;
export const DRAFTS = {
  speculation: { algorithm: "EAGLE", numSteps: 3, eagleTopk: 1, numDraftTokens: 4 },
} as const;
const TREES = {
  speculation: { algorithm: "EAGLE", numSteps: 3, eagleTopk: 2, numDraftTokens: 6 },
} as const;
const CROWDED = { maxTotalTokens: 128, contextLength: 124, scheduleConservativeness: 0 } as const;

const REBALANCED = { everySteps: 5, minBalancedness: 1 } as const;
/** Four experts have copies, each row is added up by one rank, and every so often experts move, a few layers in front of a step. */
const MOVING = {
  redundant: 4,
  allToAll: "auto",
  rebalance: { ...REBALANCED, layersAtOnce: 3 },
} as const;

interface Variant {
  readonly name: string;
  readonly options: EngineTask["options"];
  readonly losses?: EngineTask["losses"];
  readonly draftModel?: string;
  /** Shows that it has happened. */
  readonly proof: (figures: EngineAnswers["figures"]) => void;
  /** Ranks that every run has it on, of the few that it has. */
  readonly shortSize?: number;
  /** Of more groups none has two of the requests at once. */
  readonly mostGroups?: number;
}

const isCached = (one: EngineAnswers["figures"]) => expect(one.cachedTokens).toBeGreaterThan(0);
export const isDrafted = (one: EngineAnswers["figures"]) =>
  expect(one.acceptedDrafts).toBeGreaterThan(0);
const isMoved = (one: EngineAnswers["figures"]) => expect(one.movedExperts).toBeGreaterThan(0);
const isRetracted = (one: EngineAnswers["figures"]) => expect(one.retractions).toBeGreaterThan(0);

export const VARIANTS: readonly Variant[] = [
  { name: "plain", options: {}, proof: isCached },
  ...[true, false].map((twoBatchOverlap) => ({
    name: `${twoBatchOverlap ? "two batches overlap, " : ""}drafts, retracted to host memory, devices lost, experts that move`,
    options: {
      ...{ ...DRAFTS, ...CROWDED, retractionMemory: 2 ** 24, experts: MOVING },
      twoBatchOverlap,
    },
    losses: [
      { rank: 1, order: 9 },
      { rank: 0, order: 21 },
    ],
    proof: (one: EngineAnswers["figures"]) => {
      isDrafted(one);
      isRetracted(one);
      isMoved(one);
      expect(one.overlappedSteps > 0).toBe(twoBatchOverlap);
      expect(one.recoveries).toBe(2);
    },
    shortSize: twoBatchOverlap ? 2 : 4,
  })),
  {
    name: "two batches overlap, mixed chunks",
    options: { ...DRAFTS, twoBatchOverlap: true, mixedChunks: true, chunkedPrefillSize: 16 },
    proof: (one) => {
      isDrafted(one);
      expect(one.overlappedSteps).toBeGreaterThan(0);
    },
  },
  { name: "drafts of the module", options: DRAFTS, proof: isDrafted },
  {
    name: "experts that move, all layers at once, any copy",
    options: {
      experts: { redundant: 4, dispatch: "dynamic", rebalance: { ...REBALANCED, everySteps: 4 } },
    },
    proof: isMoved,
  },
  { name: "trees of drafts", options: TREES, proof: isDrafted },
  {
    name: "drafts of what was said before",
    options: { speculation: { algorithm: "NGRAM", numDraftTokens: 4 } },
    proof: isDrafted,
  },
  {
    name: "drafts of another model, in mixed chunks",
    options: {
      ...{ mixedChunks: true, chunkedPrefillSize: 16 },
      speculation: { ...DRAFTS.speculation, algorithm: "STANDALONE" },
    },
    draftModel: EMBEDDED_MODEL,
    proof: isDrafted,
  },
  {
    name: "trees of drafts, retracted, computed again",
    options: { ...TREES, ...CROWDED },
    proof: (one) => {
      isDrafted(one);
      isRetracted(one);
    },
  },
  {
    name: "chunks of 7, pages of 3, steps do not overlap, launches are not kept",
    options: { chunkedPrefillSize: 7, pageSize: 3, overlapSchedule: false, decodeBuckets: false },
    proof: isCached,
  },
  {
    name: "mixed chunks, two at a time",
    options: { mixedChunks: true, chunkedPrefillSize: 16, maxRunningRequests: 2 },
    proof: isCached,
  },
  { name: "retracted, computed again", options: CROWDED, proof: isRetracted },
  {
    name: "retracted without a prefix cache, brought back from host memory",
    options: { ...CROWDED, prefixCache: false, retractionMemory: 2 ** 24 },
    proof: isRetracted,
  },
];

/** Of each group, which has some of the requests. */
const GROUP_CROWDED = { maxTotalTokens: 124, contextLength: 120, scheduleConservativeness: 0 };
export const GROUP_VARIANTS: readonly Variant[] = [
  { name: "plain, a head for each group", options: { headByGroup: true }, proof: isCached },
  {
    name: "drafts, retracted to host memory, devices lost, experts that move",
    options: { ...DRAFTS, ...GROUP_CROWDED, retractionMemory: 2 ** 24, experts: MOVING },
    losses: [
      { rank: 1, order: 19 },
      { rank: 0, order: 64 },
    ],
    proof: (one) => {
      isDrafted(one);
      isMoved(one);
      expect(one.recoveries).toBe(2);
    },
    shortSize: 4,
  },
  {
    name: "chunks of 7, pages of one token, steps do not overlap, dense layers whole",
    options: {
      ...{ chunkedPrefillSize: 14, pageSize: 1, overlapSchedule: false },
      wholeDenseLayers: true,
    },
    proof: isCached,
  },
  {
    name: "mixed chunks, retracted, computed again",
    options: { ...GROUP_CROWDED, mixedChunks: true },
    proof: isRetracted,
    mostGroups: 2,
  },
  {
    name: "trees of drafts, retracted, computed again",
    options: { ...TREES, ...GROUP_CROWDED },
    proof: isDrafted,
  },
  {
    name: "two batches overlap, drafts of another model",
    options: {
      ...{ twoBatchOverlap: true, maxRunningRequests: 8 },
      speculation: { ...DRAFTS.speculation, algorithm: "STANDALONE" },
    },
    draftModel: EMBEDDED_MODEL,
    proof: (one) => {
      isDrafted(one);
      expect(one.overlappedSteps).toBeGreaterThan(0);
    },
    mostGroups: 2,
  },
];
/** `way`: its number among the ways that ranks find each other on. */
export const GROUP_LAYOUTS = [
  { way: 0, size: 2, groups: 2, isShort: false },
  { way: 1, size: 4, groups: 2, isShort: true },
  { way: 1, size: 4, groups: 4, isShort: false },
  { way: 0, size: 4, groups: 2, isShort: false },
  { way: 2, size: 2, groups: 2, isShort: false },
];
