/**
 * Which workers there are, and how that changes.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { HttpError } from "../../http/error_response.ts";
import { clientLeft } from "../forward/request_signal.ts";
import type { RouterContext } from "../router_context.ts";
import { workerUrl } from "../worker/workers.ts";

/** @throws {InvalidRequestError} when the query names no worker. */
function urlOf(request: Request): string {
  const given = new URL(request.url).searchParams.get("url");
  if (given !== null && given !== "") return workerUrl(given);
  const state = "Worker URL required. Provide 'url' query parameter";
  throw new InvalidRequestError(`Cannot find the worker: ${state}`, "url");
}

/** `POST /add_worker?url=`: answers once the worker is healthy. */
export async function addWorker(context: RouterContext, request: Request): Promise<Response> {
  const { workers, checks } = context;
  const url = urlOf(request);
  const worker = workers.add(url);
  let isHealthy = false;
  try {
    isHealthy = await checks.admit(worker, request.signal);
  } catch (error) {
    throw request.signal.aborted ? clientLeft() : error;
  } finally {
    if (!isHealthy && workers.has(worker)) workers.remove(url);
  }
  if (!isHealthy) {
    const state = "it did not become healthy in time, or was removed meanwhile";
    throw new HttpError("unavailable", `Cannot add worker ${url}: ${state}`);
  }
  return new Response(`Successfully added worker: ${url}`);
}

/** `POST /remove_worker?url=`: what the worker answers goes on to its end. */
export function removeWorker({ workers }: RouterContext, request: Request): Response {
  const url = urlOf(request);
  workers.remove(url);
  return new Response(`Successfully removed worker: ${url}`);
}

/** `GET /list_workers`. */
export function listWorkers({ workers }: RouterContext): Response {
  const urls = (list: RouterContext["workers"]["all"]) => list.map(({ url }) => url);
  return Response.json({ urls: urls(workers.all), draining: urls(workers.draining) });
}
