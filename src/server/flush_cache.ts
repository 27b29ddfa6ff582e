/**
 * `GET` or `POST /flush_cache`: empties the prefix cache, for measurements that start from nothing.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import type { ServerContext } from "./server_context.ts";

/** Milliseconds between two looks whether the engine is idle. */
const POLL = 20;
/** Seconds that a client may ask to wait. */
const MAX_TIMEOUT = 3600;

/**
 * Answers in plain text: 200 when the cache is flushed, 400 while requests run or wait. With
 * `?timeout=` it waits that many seconds for the engine to be idle.
 */
export async function handleFlushCache(
  { engine }: ServerContext,
  request: Request,
): Promise<Response> {
  const deadline = performance.now() + 1000 * readTimeout(request.url);
  let flushed = await engine.flushCache();
  while (!flushed && performance.now() < deadline && !request.signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, POLL));
    flushed = await engine.flushCache();
  }
  return flushed
    ? new Response("Cache flushed.\n")
    : new Response("Cache not flushed: requests are running or queued.\n", { status: 400 });
}

function readTimeout(url: string): number {
  const given = new URL(url).searchParams.get("timeout");
  if (given === null) return 0;
  const seconds = Number(given);
  if (given.trim() !== "" && seconds >= 0 && seconds <= MAX_TIMEOUT) return seconds;
  throw new InvalidRequestError(
    `timeout must be a number of seconds from 0 to ${MAX_TIMEOUT}, got ${given.slice(0, 60)}`,
    "timeout",
  );
}
