/**
 * What every worker is asked to do.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";
import { isObject } from "../../http/fields.ts";
import { readBodyBytes } from "../../http/read_body.ts";
import { answerIdOf } from "../../server/guard/request_ids.ts";
import { clientLeft } from "../forward/request_signal.ts";
import { MOST_ID_UNITS } from "../nodes/given_ids.ts";
import type { RouterContext } from "../router_context.ts";
import { requestHeaders } from "../worker/headers.ts";
import { forEachOf } from "../worker/signal_group.ts";
import { type Asked, ask } from "../worker/upstream.ts";
import type { Worker } from "../worker/worker.ts";

/** Bytes of the body of such a request. */
const MAX_BODY = 2 ** 20;

/** `GET` or `POST /flush_cache`. */
export async function flushCaches(context: RouterContext, request: Request): Promise<Response> {
  const answers = await askAll(context, request, {
    workers: context.workers.all,
    body: await bodyOf(context, request),
  });
  if (answers.every((answer) => answer?.status === 200)) {
    return new Response("Cache flushed on all servers");
  }
  return new Response("Cache flush failed on one or more servers", { status: 500 });
}

/**
 * `POST /abort_request`: the worker or decode node that answers a request of that id ends it, other
 * workers know of none.
 *
 * @throws {HttpError} `worker_failed` when no worker answers.
 */
export async function abortRequests(context: RouterContext, request: Request): Promise<Response> {
  const { workers } = context;
  const body = await bodyOf(context, request);
  abortAtNodes(context, body);
  const answers = await askAll(context, request, {
    workers: [...workers.all, ...workers.draining],
    body,
  });
  if (answers.some((answer) => answer?.status === 200)) return new Response(null);
  const refused = answers.find((answer) => answer !== undefined);
  if (refused === undefined) {
    throw new HttpError("worker_failed", "Cannot abort the request: no worker answers");
  }
  const { status, text } = refused;
  return new Response(text, { status, headers: { "content-type": "application/json" } });
}

async function bodyOf(
  { bodies, maxBodyBytes }: RouterContext,
  request: Request,
): Promise<Uint8Array | undefined> {
  const limits = { maxBytes: Math.min(maxBodyBytes, MAX_BODY), share: bodies.of(request) };
  return request.method === "GET" ? undefined : readBodyBytes(request, limits);
}

/** What is wrong with the body, workers say. */
function abortAtNodes({ nodes }: RouterContext, body: Uint8Array | undefined): void {
  let asked: unknown;
  try {
    asked = JSON.parse(new TextDecoder().decode(body));
  } catch {
    return;
  }
  if (!isObject(asked)) return;
  const { rid, abort_all: isAll } = asked;
  if (isAll === true) nodes?.abort();
  // No request has a longer one, and a node that is told one leaves.
  else if (typeof rid === "string" && rid !== "" && rid.length <= MOST_ID_UNITS) nodes?.abort(rid);
}

/** Undefined for a worker that does not answer, which the log says. */
async function askAll(
  context: RouterContext,
  request: Request,
  { workers, body }: { readonly workers: readonly Worker[]; readonly body: Uint8Array | undefined },
): Promise<readonly (Asked | undefined)[]> {
  const { upstream, observer, requestTimeout } = context;
  const { method, signal } = request;
  const { pathname, search } = new URL(request.url);
  const id = answerIdOf(request);
  const headers = requestHeaders(request.headers, id);
  return forEachOf(workers, signal, async ({ url }, own) => {
    const tell = (state: string) => {
      const text = `Request ${id} of ${pathname} failed at ${url}: ${state}`;
      const fields = { message: text, x_request_id: id, worker: url };
      observer.event({ level: "warning", text, fields });
    };
    try {
      const asked = { url: url + pathname + search, method, headers, body, signal: own };
      const answer = await ask(upstream, asked, requestTimeout);
      if (answer.status !== 200) tell(`it answered ${answer.status}`);
      return answer;
    } catch (error) {
      if (signal.aborted) throw clientLeft();
      tell((error as Error).message);
      return undefined;
    }
  });
}
