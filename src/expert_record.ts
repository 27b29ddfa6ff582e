/**
 * What callers see of how often experts are chosen.
 *
 * @module
 */

/** Begins to count anew, ends counting, or says what was counted and begins anew. */
export type ExpertRecording = "start" | "stop" | "dump";

export interface ExpertRecord {
  /** Whether steps are counted from now on. */
  readonly isRecording: boolean;
  /** Steps that were counted: the last ones, as many as are kept. */
  readonly passes: number;
  /**
   * `[layers][experts]`: how often each was chosen in these steps. Empty for "start" and "stop"; zeros
   * in layers without experts.
   */
  readonly logicalCount: readonly (readonly number[])[];
  /**
   * How even the work of ranks was, on average over the steps: the mean of all ranks over the most of
   * one, copies of an expert taken to have had the same each. `null` without a step.
   */
  readonly balancedness: number | null;
}

export interface RecordsExperts {
  /**
   * Counts how often steps choose each expert of each layer.
   *
   * @throws {UnsupportedError} when the model has no experts.
   */
  recordExperts(recording: ExpertRecording): Promise<ExpertRecord>;
}
