/**
 * What an engine tells of the ranks that share its model.
 *
 * @module
 */

/** What one rank of several holds on its device. */
export interface RankStatus {
  readonly rank: number;
  readonly weightBytes: number;
  readonly cacheBytes: number;
}

export interface RanksStatus {
  /** What each holds; absent where there is one. */
  readonly ranks?: readonly RankStatus[];
  /**
   * Steps of theirs that were cut into two micro-batches, since their devices were opened; absent where
   * none is to be.
   */
  readonly overlappedSteps?: number;
  /** How often they were started again, where they are processes; absent where none is. */
  readonly restarts?: number;
}
