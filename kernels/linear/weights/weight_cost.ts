/**
 * What launches over weights have to do: read them once, and multiply them with every row.
 *
 * @module
 */
import type { LaunchCost } from "../../../src/gpu/launch_cost.ts";
import { type ExpertSlab, type PlacedExperts, type WeightShape, weightBytes } from "./layout.ts";

/** Bytes of a weight, its scales included. */
export function storedBytes(shape: WeightShape): number {
  const { words, scales } = weightBytes(shape);
  return words + scales;
}

/** @param outputs Of the weight's rows, those that are not padding. */
export function weightCost(weight: WeightShape, rows: number, outputs: number): LaunchCost {
  return { bytes: storedBytes(weight), flops: 2 * rows * weight.columns * outputs };
}

/**
 * The same of chosen experts. Only the GPU knows which were chosen: it is taken to be as many as
 * there are pairs, and from every slab its share.
 *
 * @param outputs Of the rows of an expert, those that are not padding.
 */
export function expertCost(
  { weights, slab }: { readonly weights: PlacedExperts; readonly slab: ExpertSlab },
  pairs: number,
  outputs: number,
): LaunchCost {
  const own = (pairs * slab.expertCount) / weights.expertCount;
  return {
    bytes: storedBytes(weights) * Math.min(own, slab.expertCount),
    flops: 2 * own * weights.columns * outputs,
  };
}
