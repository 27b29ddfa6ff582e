/**
 * `GET` or `POST /flush_cache`: empties the prefix cache, for measurements that start from nothing.
 *
 * @module
 */
import { CapacityError, InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type { GenerationEngine } from "../../generation.ts";
import type { ServerContext } from "../server_context.ts";

/** Milliseconds between two looks whether the engine is idle. */
const POLL = 20;
/** Seconds that a client may ask to wait. */
export const MAX_TIMEOUT = 3600;
/** Clients that wait at once, as each looks at the engine again and again. */
export const MAX_WAITING = 16;
/** How many do. */
const waiting = new WeakMap<GenerationEngine, number>();

/**
 * Answers in plain text: 200 when the cache is flushed, 400 while requests run or wait. With
 * `?timeout=` it waits that many seconds for the engine to be idle. Prefixes that are stored beyond
 * the server's life stay, and are restored when they are asked for, but with `?stored=true`.
 */
export async function handleFlushCache(
  { engine }: ServerContext,
  request: Request,
): Promise<Response> {
  const { searchParams } = new URL(request.url);
  const deadline = performance.now() + 1000 * readTimeout(searchParams);
  const options = { stored: readStored(searchParams, engine) };
  let flushed = await engine.flushCache(options);
  if (!flushed && performance.now() < deadline) {
    flushed = await inPlace(engine, async () => {
      let isDone = false;
      while (!isDone && performance.now() < deadline && !request.signal.aborted) {
        await new Promise((resolve) => setTimeout(resolve, POLL));
        isDone = await engine.flushCache(options);
      }
      return isDone;
    });
  }
  return flushed
    ? new Response("Cache flushed.\n")
    : new Response("Cache not flushed: requests are running or queued.\n", { status: 400 });
}

/** @throws {CapacityError} when all places are taken. */
async function inPlace<T>(engine: GenerationEngine, wait: () => Promise<T>): Promise<T> {
  const others = waiting.get(engine) ?? 0;
  if (others >= MAX_WAITING) {
    const state = `all ${MAX_WAITING} are taken until the engine is idle`;
    throw new CapacityError("places to wait for a flush", MAX_WAITING, state);
  }
  waiting.set(engine, others + 1);
  try {
    return await wait();
  } finally {
    waiting.set(engine, waiting.get(engine)! - 1);
  }
}

function readStored(search: URLSearchParams, { model }: GenerationEngine): boolean {
  const given = search.get("stored") ?? "false";
  if (given !== "true" && given !== "false") {
    throw new InvalidRequestError(
      `stored must be true or false, got ${given.slice(0, 60)}`,
      "stored",
    );
  }
  if (given === "true" && !model.storesPrefixes) {
    throw new UnsupportedError("stored", "this server keeps no prefixes", { field: "stored" });
  }
  return given === "true";
}

function readTimeout(search: URLSearchParams): number {
  const given = search.get("timeout");
  if (given === null) return 0;
  const seconds = Number(given);
  if (given.trim() !== "" && seconds >= 0 && seconds <= MAX_TIMEOUT) return seconds;
  throw new InvalidRequestError(
    `timeout must be a number of seconds from 0 to ${MAX_TIMEOUT}, got ${given.slice(0, 60)}`,
    "timeout",
  );
}
