/**
 * Weights as a model has them: where they lie on the GPU, and by which numeric class they are
 * multiplied.
 *
 * @module
 */
import type { MatrixClass } from "./matrix_class.ts";
import type { PlacedExperts, PlacedWeight, WeightLayout } from "./weights/layout.ts";

interface ChosenClass {
  /** Multiplies prompt rows, or all rows, by matrices (numeric class mma128): see `tilesOf()`. */
  readonly matrix?: MatrixClass | undefined;
}

/** What an adapter prefers and the engine's options choose, before the weights are uploaded. */
export interface LinearLayout extends WeightLayout, ChosenClass {}

/** A weight matrix that `linear()` and `gateUp()` multiply. */
export interface LinearWeight extends PlacedWeight, ChosenClass {}

/** The same matrix of many experts. */
export interface ExpertWeights extends PlacedExperts, ChosenClass {}
