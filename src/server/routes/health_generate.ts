/**
 * `GET /health_generate`: whether the model works, shown by a token.
 *
 * @module
 */
import type { ServerContext } from "../server_context.ts";
import { handleHealth } from "./health.ts";

/** @returns 200, or 503 when `/health` says so already, or nothing has come in time. */
export async function handleHealthGenerate(context: ServerContext): Promise<Response> {
  const now = handleHealth(context);
  if (!now.ok) return now;
  return new Response(null, { status: (await context.health.probe.works()) ? 200 : 503 });
}
