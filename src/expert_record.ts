/**
 * What callers see of how often experts are chosen.
 *
 * @module
 */

/**
 * | value | what is recorded |
 * |---|---|
 * | stat | how many rows chose each expert, summed over steps |
 * | per_pass | for every step, how many rows went to each slot |
 * | per_token | for every step, its rows and the slots that each went to |
 */
export const EXPERT_RECORDER_MODES = ["stat", "per_pass", "per_token"] as const;
export type ExpertRecorderMode = (typeof EXPERT_RECORDER_MODES)[number];

/** Begins to count anew, ends counting, or says what was counted and begins anew. */
export type ExpertRecording = "start" | "stop" | "dump";

/** The rows of one step. */
export interface RecordedRows {
  readonly forwardMode: "extend" | "decode" | "mixed" | "target_verify" | "idle";
  /** Rows of each prompt that the step has a part of, in order. */
  readonly extendLengths: readonly number[];
  /** `[rows]`; -1 where an embedding stands in the place of a token */
  readonly tokens: Int32Array;
  /** `[rows]` */
  readonly positions: Uint32Array;
  /** Slots that a row goes to in a layer. */
  readonly perRow: number;
  /** `[layers][rows * perRow]`; -1 in layers without experts */
  readonly slots: readonly Int32Array[];
}

/** One step. */
export interface ExpertPassRecord {
  /** Its number, counted from the engine's first. */
  readonly forwardPass: number;
  /** Of per_pass, `[layers][slots]`: zeros in layers without experts. */
  readonly slotCounts?: readonly Uint32Array[];
  /** Of per_token. */
  readonly rows?: RecordedRows;
}

export interface ExpertRecord {
  readonly mode: ExpertRecorderMode;
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
  /** Of each step, in order; empty for stat. */
  readonly records: readonly ExpertPassRecord[];
  /** `[layers][slots]`: the expert of each slot now. Empty for "start" and "stop". */
  readonly placement: readonly (readonly number[])[];
}

export interface RecordsExperts {
  /**
   * Counts how often steps choose each expert of each layer, or what the mode says.
   *
   * @throws {UnsupportedError} when the model has no experts.
   */
  recordExperts(recording: ExpertRecording): Promise<ExpertRecord>;
}
