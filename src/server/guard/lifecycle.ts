/**
 * What a server that stops says to new requests.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import { errorResponse, HttpError } from "../../http/error_response.ts";

/** A server is ready once its first request has shown that the model works. */
export type Lifecycle = "starting" | "ready" | "draining";

export interface DrainingPaths {
  /** They help to end what still runs, or to watch it. */
  readonly served: readonly string[];
  /** They are answered by a status alone, and so is what begins with one of them. */
  readonly byStatus: readonly string[];
}

/** Refuses new requests with 503 while the running ones are finished. */
export function refuseWhileDraining(
  lifecycle: () => Lifecycle,
  { served, byStatus }: DrainingPaths,
): MiddlewareHandler {
  return async ({ req }, next) => {
    if (lifecycle() !== "draining" || served.includes(req.path)) return next();
    // The connection is of no more use to the client.
    const headers = { connection: "close" };
    if (byStatus.some((path) => req.path.startsWith(path))) {
      return new Response(null, { status: 503, headers });
    }
    const message = `Cannot ${req.method} ${req.path}: the server is shutting down`;
    return errorResponse(new HttpError("unavailable", message), headers);
  };
}
