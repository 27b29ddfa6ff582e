/**
 * How the router and its workers are.
 *
 * @module
 */
import type { RouterContext } from "../router_context.ts";
import { keyHeaders, requestsIn } from "../worker/health_checks.ts";
import { forEachOf } from "../worker/signal_group.ts";
import { type Asked, ask } from "../worker/upstream.ts";
import type { Worker } from "../worker/worker.ts";

/** Milliseconds in which a worker must say how much it has to do. */
const LOAD_TIMEOUT = 5000;

/** `GET /liveness`: the router answers. */
export function liveness(): Response {
  return new Response("OK");
}

/** `GET /readiness`: whether requests find a worker. */
export function readiness({ workers }: RouterContext): Response {
  const { all } = workers;
  const healthy = all.filter(({ health }) => health === "healthy").length;
  if (healthy > 0) {
    const counts = { healthy_workers: healthy, total_workers: all.length };
    return Response.json({ status: "ready", ...counts });
  }
  const reason = "no healthy workers available";
  return Response.json({ status: "not_ready", reason, total_workers: all.length }, { status: 503 });
}

/** `GET /health`: whether all workers are healthy. */
export function health({ workers }: RouterContext): Response {
  const unhealthy = workers.all.filter((worker) => worker.health !== "healthy");
  if (unhealthy.length === 0) return new Response("All servers healthy");
  const urls = unhealthy.map(({ url }) => JSON.stringify(url)).join(", ");
  return new Response(`Unhealthy servers: [${urls}]`, { status: 503 });
}

/** `GET /get_loads`: requests of each worker, or -1 where it does not say. */
export async function loads(context: RouterContext, request: Request): Promise<Response> {
  const answers = await askLoads(context, request);
  const workers = answers.map(([{ url }, answer]) => ({
    worker: url,
    load: requestsIn(answer) ?? -1,
  }));
  return Response.json({ workers });
}

/** What `/get_load` of a server has. */
const FIGURES = ["load", "num_reqs", "num_waiting_reqs", "num_tokens"] as const;

/** `GET /get_load`: the sums of all workers that say, in the form of a server. */
export async function totalLoad(context: RouterContext, request: Request): Promise<Response> {
  const sums = { load: 0, num_reqs: 0, num_waiting_reqs: 0, num_tokens: 0 };
  for (const [, answer] of await askLoads(context, request)) {
    // It is one, where it has the number of requests.
    if (answer === undefined || requestsIn(answer) === undefined) continue;
    const value: unknown = JSON.parse(answer.text);
    for (const item of Array.isArray(value) ? value : [value]) {
      for (const name of FIGURES) sums[name] += Number((item as typeof sums)[name] ?? 0) || 0;
    }
  }
  return Response.json(sums);
}

type LoadAnswers = readonly (readonly [Worker, Asked | undefined])[];

function askLoads(
  { workers, upstream, apiKey }: RouterContext,
  { signal }: Request,
): Promise<LoadAnswers> {
  const headers = keyHeaders(apiKey);
  return forEachOf(workers.all, signal, async (worker, own) => {
    const request = { url: `${worker.url}/get_load`, method: "GET", headers, signal: own };
    const answer = await ask(upstream, request, LOAD_TIMEOUT).catch(() => undefined);
    return [worker, answer] as const;
  });
}
