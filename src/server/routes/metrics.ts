/**
 * `GET /metrics`: the figures of the engine and its requests, as monitoring systems read them.
 *
 * @module
 */
import type { ServerContext } from "../server_context.ts";

/** Only a server that counts figures has this endpoint. */
export async function handleMetrics({ metrics }: ServerContext): Promise<Response> {
  const page = metrics!;
  return new Response(await page.text(), { headers: { "content-type": page.contentType } });
}
