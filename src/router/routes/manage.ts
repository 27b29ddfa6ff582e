/**
 * Which workers there are, and how that changes.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { HttpError } from "../../http/error_response.ts";
import { clientLeft } from "../forward/request_signal.ts";
import type { RouterContext } from "../router_context.ts";
import type { WorkerPlace } from "../worker/worker.ts";
import { workerUrl } from "../worker/workers.ts";

/** @throws {InvalidRequestError} when the query names no worker. */
function urlOf(request: Request): string {
  const given = new URL(request.url).searchParams.get("url");
  if (given !== null && given !== "") return workerUrl(given);
  const state = "Worker URL required. Provide 'url' query parameter";
  throw new InvalidRequestError(`Cannot find the worker: ${state}`, "url");
}

/**
 * What a worker is to do, by `type` and `bootstrap_port` of the query where workers have roles.
 *
 * @throws {InvalidRequestError} when it does not say, or says what is not so here.
 */
function placeOf({ pairs }: RouterContext, request: Request): WorkerPlace {
  const query = new URL(request.url).searchParams;
  const [role, port] = [query.get("type"), query.get("bootstrap_port")];
  const wrong = (field: string, state: string) => {
    throw new InvalidRequestError(`Cannot add the worker: ${state}`, field);
  };
  if (pairs === undefined) {
    if (role !== null && role !== "plain") wrong("type", "the router's workers have no roles");
    return {};
  }
  if (role !== "prefill" && role !== "decode") {
    return wrong("type", "its type must be prefill or decode") as never;
  }
  if (port === null || port === "none" || role === "decode") return { role };
  const bootstrapPort = Number(port);
  if (!(Number.isInteger(bootstrapPort) && bootstrapPort > 0 && bootstrapPort < 65_536)) {
    wrong(
      "bootstrap_port",
      `Invalid bootstrap port: ${port.slice(0, 20)}. Must be a number or 'none'`,
    );
  }
  return { role, bootstrapPort };
}

/** `POST /add_worker?url=`: answers once the worker is healthy. */
export async function addWorker(context: RouterContext, request: Request): Promise<Response> {
  const { workers, checks } = context;
  const url = urlOf(request);
  const worker = workers.add(url, placeOf(context, request));
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

/** `GET /list_workers`: of replicas that are chosen one by one, each. */
export function listWorkers({ workers, nodes }: RouterContext): Response {
  const urls = workers.all.flatMap(({ targets }) => targets.map(({ name }) => name));
  const decodeNodes = nodes && { decode_nodes: nodes.names };
  return Response.json({
    urls,
    draining: workers.draining.map(({ url }) => url),
    ...decodeNodes,
  });
}
