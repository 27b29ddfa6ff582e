/**
 * What a server that starts, stops or is stuck says to those who ask.
 *
 * @module
 */
import type { MiddlewareHandler } from "hono";
import type { GenerationEngine } from "../generation.ts";
import { errorResponse, HttpError } from "../http/error_response.ts";

/** A server is ready once its first request has shown that the model works. */
export type Lifecycle = "starting" | "ready" | "draining";

/** Paths that help to end what still runs, or to watch it. */
const SERVED_TO_THE_END: ReadonlySet<string> = new Set(["/abort_request", "/metrics"]);

/** Refuses new requests with 503 while the running ones are finished. */
export function refuseWhileDraining(lifecycle: () => Lifecycle): MiddlewareHandler {
  return async ({ req }, next) => {
    if (lifecycle() !== "draining" || SERVED_TO_THE_END.has(req.path)) return next();
    // The connection is of no more use to the client.
    const headers = { connection: "close" };
    if (req.path.startsWith("/health")) return new Response(null, { status: 503, headers });
    const message = `Cannot ${req.method} ${req.path}: the server is shutting down`;
    return errorResponse(new HttpError("unavailable", message), headers);
  };
}

export interface HealthOptions {
  readonly lifecycle: () => Lifecycle;
  /** Seconds without a finished step, while there is work, after which an engine counts as stuck. */
  readonly watchdogTimeout: number;
}

/**
 * Answers at once, under any load: it asks the engine for its state, not for a token. 200 when the
 * server is ready, the device is there and steps finish; else 503.
 */
export function handleHealth(
  engine: GenerationEngine,
  { lifecycle, watchdogTimeout }: HealthOptions,
): Response {
  const { healthy, stalledFor } = engine.status();
  const isWell = healthy && stalledFor < watchdogTimeout && lifecycle() === "ready";
  return new Response(null, { status: isWell ? 200 : 503 });
}
