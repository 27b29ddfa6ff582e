/**
 * One attempt at a worker, and what it has come to.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";
import type { Outcome } from "../worker/breaker.ts";
import type { UpstreamAnswer } from "../worker/upstream.ts";
import type { Worker } from "../worker/worker.ts";

/** A request that was sent to a worker. */
export interface Flight {
  readonly worker: Worker;
  /** @param outcome Default: it says nothing of the worker. */
  end(outcome?: Outcome): void;
}

export type Attempt =
  | { readonly error: HttpError }
  | {
      readonly answer: UpstreamAnswer;
      readonly first: Uint8Array | undefined;
      readonly flight: Flight;
    };

export function unavailable(kind: string): HttpError {
  const state = `No available ${kind} (all circuits open or unhealthy)`;
  return new HttpError("unavailable", `Cannot send the request: ${state}`);
}
