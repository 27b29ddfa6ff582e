/**
 * What a model wants from a checkpoint, as plain data: one row for each tensor, with the place its
 * bytes go to. The loader delivers; it knows neither layers nor GPU buffers.
 *
 * @module
 */

import type { Dtype } from "../dtype.ts";

/**
 * How a tensor divides over ranks: by its first dimension ("rows", and "heads" by whole heads), by
 * its second ("columns"), not at all ("none": every rank has all of it), or by whole experts.
 */
export type WeightSplit = "none" | "rows" | "columns" | "heads" | "experts";

/** Rows `[rowStart, rowStart + rows)` of a tensor and, of each, elements of the second dimension. */
export interface WeightSlice {
  readonly rowStart: number;
  readonly rows: number;
  /** Default: all of the second dimension. */
  readonly columns?: { readonly start: number; readonly count: number };
}

/** Whole rows of one tensor. A row is everything after the first dimension. */
export interface WeightChunk {
  readonly dtype: Dtype;
  /** First row held here, counted from the first that is wanted. */
  readonly rowStart: number;
  readonly rows: number;
  /** Row-major, little endian. The receiver owns it: it may keep or change it. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Takes one tensor's bytes and lays them out as its layer wants them. */
export interface Destination {
  /**
   * Chunks of one tensor come in order of rows and cover each row once. The next call waits for
   * the returned promise, and so does the memory of the chunk after the next one.
   */
  write(chunk: WeightChunk): void | Promise<void>;
  /** Called once after the last row, also for a tensor without elements. */
  finish?(): void | Promise<void>;
}

/**
 * One tensor a model needs.
 *
 * Tensors load in the order of the table. A destination that needs a scale before the codes gets it
 * first when the table lists the scale's row first.
 */
export interface WeightSpec {
  /** As the checkpoint spells it. */
  readonly name: string;
  readonly shape: readonly number[];
  /** Element types the destination understands. */
  readonly dtypes: readonly Dtype[];
  readonly split: WeightSplit;
  /** Ranks in a row that have the same part, where there are more ranks than parts. Default 1. */
  readonly copies?: number;
  /** What is wanted of it: the destination sees that as if it were the tensor. Default: all. */
  readonly slice?: WeightSlice;
  /** Passed over without a word when the checkpoint lacks it. */
  readonly optional?: boolean;
  readonly destination: Destination;
}

/**
 * Number of the decoder layer a tensor belongs to: 3 for `model.layers.3.mlp.gate.weight`.
 * Layers from `num_hidden_layers` on belong to multi-token prediction.
 */
export function layerIndex(name: string): number | undefined {
  const match = /^model\.layers\.(\d+)\./.exec(name);
  return match === null ? undefined : Number(match[1]);
}
