/**
 * What of a grammar may be followed, and remembered, at most.
 *
 * @module
 */
import type { Horizons } from "./frames.ts";

export interface ConfigurationLimits {
  /** Entries of a stack. What nests deeper is not offered. Default 10,000. */
  readonly maxDepth?: number | undefined;
  /** Threads at the same time. Default 10,000. */
  readonly maxThreads?: number | undefined;
  /** Threads followed in one operation. Default 400,000, which takes less than a second. */
  readonly maxWork?: number | undefined;
  /** Of what is remembered; more is forgotten and made again when needed. Default 64 MiB. */
  readonly maxBytes?: number | undefined;
  /** Bytes of text for which `near` and `far` stand in for a configuration. Default 16 and 128. */
  readonly horizons?: Horizons | undefined;
}

/** What one operation may add to what is remembered; half of all where that is more. */
export const OPERATION_BYTES = 48 * 2 ** 20;
/** Bytes of memory, roughly. */
export const THREAD_BYTES = 100;
export const FRAME_BYTES = 400;
export const CONFIGURATION_BYTES = 300;
export const EDGE_BYTES = 8;
/** Of groups of bytes, besides the classes. */
export const GROUPS_BYTES = 300;
export const REFERENCE_BYTES = 16;
/** Memory is looked at when so many threads more are pending, in a row of bits. */
export const PENDING_MASK = 15;
