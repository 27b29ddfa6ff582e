/**
 * `GET /health_generate`: whether the model works, shown by a token of its own.
 *
 * @module
 */
import { CapacityError } from "../../errors.ts";
import type { GenerationEngine } from "../../generation.ts";
import type { ServerContext } from "../server_context.ts";
import { handleHealth } from "./health.ts";

/** Milliseconds between two looks whether a step has finished. */
const POLL = 20;

/**
 * Generates one token. An engine that is busy shows that it works by any step that it finishes,
 * so that a long queue is no illness.
 *
 * @returns 200, or 503 when `/health` says so already, or nothing has come in time.
 */
export async function handleHealthGenerate(
  context: ServerContext,
  { signal }: Request,
): Promise<Response> {
  const now = handleHealth(context);
  if (!now.ok) return now;
  const { engine, checkTimeout } = context.health;
  // Node 20 may collect a combined signal together with its timer: this one is held by its own.
  const over = new AbortController();
  const ends = over.signal;
  const end = () => over.abort();
  const timer = setTimeout(end, 1000 * checkTimeout);
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  const works = await Promise.race([
    finishesStep(engine, ends),
    generatesToken(engine, ends).then((isToken) => isToken || finishesStep(engine, ends)),
    new Promise<false>((resolve) => {
      if (ends.aborted) resolve(false);
      ends.addEventListener("abort", () => resolve(false), { once: true });
    }),
  ]).finally(() => {
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
    end();
  });
  return new Response(null, { status: works ? 200 : 503 });
}

/**
 * @returns False when the request found no place, or `/abort_request` ended it.
 * @throws what the engine throws, which is no place in a queue.
 */
async function generatesToken(engine: GenerationEngine, signal: AbortSignal): Promise<boolean> {
  const request = {
    // Token 0 is in every vocabulary, and one token fits into every context.
    tokens: [0],
    sampling: { maxNewTokens: 1, temperature: 0, ignoreEos: true },
    requestId: `HEALTH_CHECK_${Date.now()}`,
    signal,
  };
  try {
    for await (const { tokens } of engine.generate(request)) if (tokens.length > 0) return true;
  } catch (error) {
    if (!(error instanceof CapacityError || signal.aborted)) throw error;
  }
  return false;
}

/** Resolves when a step of other requests has finished; false when there is no more time. */
async function finishesStep(engine: GenerationEngine, signal: AbortSignal): Promise<boolean> {
  // Of an engine without work it is the own request that counts.
  while (engine.status().runningRequests === 0) if (!(await wait(signal))) return false;
  const start = performance.now();
  for (;;) {
    if (!(await wait(signal))) return false;
    const { runningRequests, stalledFor } = engine.status();
    const waited = (performance.now() - start) / 1000;
    if (runningRequests > 0 && stalledFor < waited) return true;
  }
}

/** @returns Whether there is time left. */
async function wait(signal: AbortSignal): Promise<boolean> {
  await new Promise((resolve) => setTimeout(resolve, POLL));
  return !signal.aborted;
}
