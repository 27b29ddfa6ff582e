/**
 * Variants of the exactness matrix whose prompts are computed by another engine than their answers.
 *
 * @module
 */
import { expect } from "vitest";
import type { Outcome } from "./exactness.ts";
import { isCached } from "./proofs.ts";
import { crowded, HOST, type Variant } from "./variant.ts";

/** Pages came from elsewhere, and nothing is left of how they did. */
const isApart = ({ saves, restores, left }: Outcome) => {
  expect(saves).toBeGreaterThan(0);
  expect(restores).toBeGreaterThan(0);
  expect(left).toEqual(left.map(() => 0));
};

export const APART_VARIANTS: readonly Variant[] = [
  {
    name: "prompts computed apart, in chunks of 7, pages of 16 there and of 3 here",
    apart: { chunkedPrefillSize: 7, pageSize: 16 },
    options: { pageSize: 3 },
    proof: isApart,
  },
  {
    name: "prompts computed apart, asked twice, cached on both sides, pages of 4 there and of 16 here",
    apart: { pageSize: 4 },
    twice: true,
    options: { pageSize: 16 },
    proof: (one) => {
      isApart(one);
      isCached(one);
    },
  },
  {
    name: "prompts computed apart, asked twice, cached there only",
    apart: { prefixCache: true },
    twice: true,
    options: { prefixCache: false },
    proof: (one) => {
      isApart(one);
      isCached(one);
    },
  },
  {
    name: "prompts computed apart, asked twice, cached here only",
    apart: { prefixCache: false },
    twice: true,
    requests: 10,
    proof: (one) => {
      isApart(one);
      isCached(one);
    },
  },
  {
    name: "prompts computed apart, in a crowded cache that is kept in host memory",
    apart: { scheduleConservativeness: 1, retractionMemory: 0 },
    requests: 10,
    options: { ...crowded(0), ...HOST, reservedDecodeTokens: 0 },
    proof: isApart,
  },
  {
    name: "prompts computed apart, with drafts",
    apart: { pageSize: 64 },
    drafts: true,
    proof: isApart,
  },
];

/** Those whose steps verify drafts of networks. */
export const LONG_APART_VARIANTS: readonly Variant[] = [
  {
    name: "prompts computed apart, drafts of the module",
    apart: { chunkedPrefillSize: 9, pageSize: 6 },
    drafts: "module",
    options: { pageSize: 4 },
    proof: isApart,
  },
  {
    name: "prompts computed apart by an engine without the module, drafts of the module here",
    apart: { speculation: undefined },
    drafts: "trees",
    proof: isApart,
  },
  {
    name: "prompts computed apart, drafts of another model",
    apart: {},
    drafts: "model",
    proof: isApart,
  },
];
