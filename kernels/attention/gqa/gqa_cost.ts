/**
 * What a launch of grouped-query attention has to do.
 *
 * @module
 */
import type { LaunchCost, StepArrays } from "../../../src/gpu/launch_cost.ts";
import type { CacheDtype } from "../../cache/cache_kernel.ts";
import { gqaEntryBytes } from "../../cache/gqa_write.ts";
import { type RowRun, seenKeys } from "../seen_keys.ts";

interface GqaCostOptions {
  readonly cacheDtype: CacheDtype;
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly window?: number | undefined;
}

/** Keys and values once for each sequence, and two products of each row, head and key. */
export function gqaCost(
  { cacheDtype, heads, kvHeads, headDim, window }: GqaCostOptions,
  step: StepArrays,
  runs: readonly RowRun[],
): LaunchCost {
  const { keys, pairs } = seenKeys(step, runs, window);
  return {
    bytes: keys * gqaEntryBytes(cacheDtype, kvHeads, headDim),
    flops: 4 * pairs * heads * headDim,
  };
}
