/**
 * What every endpoint is given.
 *
 * @module
 */
import type { GenerationEngine } from "../generation.ts";

export interface ServerContext {
  readonly engine: GenerationEngine;
  /** Id of the model at `/v1/models`. */
  readonly servedModelName: string;
  /** Unix time in seconds at which the server came up. */
  readonly startedAt: number;
  /** Size of a request body at most. */
  readonly maxBodyBytes: number;
  /** Is told of every error that is not the client's. */
  readonly reportError: (error: unknown) => void;
}
