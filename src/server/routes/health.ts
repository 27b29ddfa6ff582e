/**
 * `GET /health`: whether the server is ready and its engine gets on.
 *
 * @module
 */
import type { ServerContext } from "../server_context.ts";

/**
 * Answers at once, under any load: it asks the engine for its state, not for a token. 200 when the
 * server is ready, the device is there and steps finish; else 503. Of an engine that sleeps, or is
 * waking, the header `x-engine-state` says so: it is well, unless it could not be loaded again.
 */
export function handleHealth({ health, lifecycle }: ServerContext): Response {
  const { healthy, stalledFor, sleep } = health.engine.status();
  const isWell = healthy && stalledFor < health.watchdogTimeout && lifecycle() === "ready";
  const headers = sleep === undefined ? {} : { "x-engine-state": sleep };
  return new Response(null, { status: isWell ? 200 : 503, headers });
}
