/**
 * How the router and its workers are.
 *
 * @module
 */
import type { PairSetting, RouterContext } from "../router_context.ts";
import { keyHeaders, requestsIn } from "../worker/health_checks.ts";
import { forEachOf } from "../worker/signal_group.ts";
import { type Asked, ask } from "../worker/upstream.ts";
import type { Worker, WorkerRole } from "../worker/worker.ts";
import type { Workers } from "../worker/workers.ts";

/** Milliseconds in which a worker must say how much it has to do. */
const LOAD_TIMEOUT = 5000;

/** `GET /liveness`: the router answers. */
export function liveness(): Response {
  return new Response("OK");
}

/** `GET /readiness`: whether requests find a worker. */
export function readiness({ workers, pairs }: RouterContext): Response {
  if (pairs !== undefined) return pairReadiness(workers, pairs);
  const { all } = workers;
  const healthy = all.filter(({ health }) => health === "healthy").length;
  if (healthy > 0) {
    const counts = { healthy_workers: healthy, total_workers: all.length };
    return Response.json({ status: "ready", ...counts });
  }
  const reason = "no healthy workers available";
  return Response.json({ status: "not_ready", reason, total_workers: all.length }, { status: 503 });
}

/** Whether a pair of both roles has answered together. */
function pairReadiness(workers: Workers, { warmth }: PairSetting): Response {
  const counts = (role: WorkerRole) => {
    const all = workers.of(role);
    return { healthy: all.filter(({ health }) => health === "healthy").length, total: all.length };
  };
  const [prefill, decode] = [counts("prefill"), counts("decode")];
  if (warmth.isReady) return Response.json({ status: "ready", prefill, decode });
  const reasons = [
    ...(prefill.healthy === 0 ? ["no healthy prefill workers"] : []),
    ...(decode.healthy === 0 ? ["no healthy decode workers"] : []),
  ];
  const reason = reasons.length > 0 ? reasons.join(", ") : "no pair has answered together yet";
  return Response.json({ status: "not_ready", reason, prefill, decode }, { status: 503 });
}

/** `GET /health`: whether all workers are healthy. */
export function health({ workers }: RouterContext): Response {
  const unhealthy = workers.all.filter((worker) => worker.health !== "healthy");
  if (unhealthy.length === 0) return new Response("All servers healthy");
  const urls = unhealthy.map((worker) => JSON.stringify(named(worker))).join(", ");
  return new Response(`Unhealthy servers: [${urls}]`, { status: 503 });
}

/** The address, behind what the server does where servers have roles. */
function named({ url, role }: Worker): string {
  if (role === "plain") return url;
  return `${role === "prefill" ? "Prefill" : "Decode"}: ${url}`;
}

/** `GET /get_loads`: requests of each worker, or -1 where it does not say. */
export async function loads(context: RouterContext, request: Request): Promise<Response> {
  const answers = await askLoads(context, request);
  if (context.pairs !== undefined) {
    const named = answers.map(([{ url, role }, answer]) => {
      return [`${role}_${url}`, requestsIn(answer) ?? -1] as const;
    });
    return Response.json({ loads: Object.fromEntries(named), errors: [] });
  }
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
