/**
 * What every endpoint is given.
 *
 * @module
 */
import type { GenerationEngine } from "../generation.ts";
import type { LiveRequests } from "./live_requests.ts";

export interface ServerContext {
  readonly engine: GenerationEngine;
  /** What is being answered. */
  readonly live: LiveRequests;
  /** Whether `usage` tells how much of a prompt was in the prefix cache. */
  readonly cacheReport: boolean;
  /** Id of the model at `/v1/models`. */
  readonly servedModelName: string;
  /** Unix time in seconds at which the server came up. */
  readonly startedAt: number;
  /** Size of a request body at most. */
  readonly maxBodyBytes: number;
  /** Is told of every error that is not the client's. */
  readonly reportError: (error: unknown) => void;
}
