/**
 * What a launch has to do, for rooflines: known to the wrappers, asked for only while launches are
 * timed.
 *
 * @module
 */

/** The least that one launch must do, whatever the kernel makes of it. */
export interface LaunchCost {
  /** Read and written in the device's memory, what is read twice once. */
  readonly bytes: number;
  /** Floating-point operations, a fused multiply-add being two. */
  readonly flops: number;
}

/** Copies, on the host, of what a step tells the kernels: the cost of attention is in them. */
export interface StepArrays {
  /** `[rows, 4]`: source, position, cache slot, first page-table entry */
  readonly rows: Uint32Array;
  /** Rows `[0, decodeRows)` run the form of attention for generated tokens. */
  readonly decodeRows: number;
  /** `[items, 8]`: first row, row count, first workspace row, first key, key count, .. */
  readonly items: Uint32Array;
}

/** Rows of the step, those of padding included. */
export const rowsOf = ({ rows }: StepArrays): number => rows.length / 4;

/** One launch as it is recorded. */
export interface LaunchSize<P extends string> {
  /** Workgroups along x, y and z. */
  readonly grid: readonly [x: number, y: number, z: number];
  /** The value of a field of `Params`. */
  readonly param: (name: P) => number;
  readonly step: StepArrays;
}

/** Says what a launch of that size has to do. */
export type CostOf<P extends string> = (size: LaunchSize<P>) => LaunchCost;

/** What the recorder knows of the kernel of a launch. */
export interface LaunchedKernel {
  readonly name: string;
  /** Undefined where its kernel does not say what it costs. */
  cost(grid: LaunchSize<string>["grid"], step: StepArrays): LaunchCost | undefined;
}
