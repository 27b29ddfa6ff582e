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
