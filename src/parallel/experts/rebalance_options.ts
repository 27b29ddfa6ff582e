/**
 * When experts are moved while an engine serves.
 *
 * @module
 */

export interface RebalanceOptions {
  /** Steps of which choices are counted before experts are placed by them. */
  readonly everySteps: number;
  /** Layers whose experts are moved in front of one step. Default: all of them. */
  readonly layersAtOnce?: number | undefined;
  /**
   * Nothing is moved where the work of ranks is more even than this: mean over most. 1 always moves.
   */
  readonly minBalancedness: number;
}

/** Steps of the reference. */
export const REBALANCE_STEPS = 1000;
