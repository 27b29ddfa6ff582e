/**
 * `POST /abort_request`: ends requests; the clients that wait for them get what there is.
 *
 * @module
 */
import { Fields } from "../../http/fields.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";

/**
 * `rid` is exactly an id of a request, of a batch or of one item; `abort_all` stands for all of
 * them. The answer is empty, also when nothing of that id runs or neither is given.
 */
export async function handleAbortRequest(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const { engine, live } = context;
  const fields = new Fields(await readBody(context, request));
  const rid = fields.string("rid") || undefined;
  const abortAll = fields.boolean("abort_all") ?? false;
  fields.end();
  if (abortAll) engine.abort();
  else if (rid !== undefined) live.abort(engine, rid);
  return new Response(null);
}
