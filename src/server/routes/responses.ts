/**
 * `POST /v1/responses`: a conversation in, the items of its answer out; `GET` and `DELETE
 * /v1/responses/{id}`: those that are kept.
 *
 * @module
 */
import { UnsupportedError } from "../../errors.ts";
import { eventStream } from "../../http/event_stream.ts";
import { GenerationGroup } from "../generation_group.ts";
import { readBody } from "../request_body.ts";
import { ResponseAnswer } from "../responses/response_answer.ts";
import { type ResponseBody, readResponseBody } from "../responses/response_request.ts";
import type { ServerContext } from "../server_context.ts";
import { asClientWrote } from "../wire/wire_names.ts";

/** Bytes of what a response has beside the words of its request and its answer, roughly. */
const RESPONSE_BYTES = 4096;

/** @throws before the response starts, so that errors of the request have a status of their own. */
export async function handleResponses(context: ServerContext, request: Request): Promise<Response> {
  const json = await readBody(context, request);
  const share = context.bodies.of(request);
  const body = await readResponseBody(json, context, share);
  const bodyBytes = share.bytes;
  const created = Math.floor(Date.now() / 1000);
  const group = await GenerationGroup.answer(context, body, request).catch((error: unknown) => {
    throw asClientWrote(error, { endpoint: "responses", body: json });
  });
  const answer = new ResponseAnswer(body, { cacheReport: context.cacheReport, created });
  const finish = () => {
    const wire = answer.wire(group.warnings);
    if (body.store) keep(context, { body, answer, wire, bodyBytes });
    return wire;
  };
  if (body.stream) {
    const releaseBody = share.keep();
    return eventStream(group, {
      form: "named",
      events: (item) => answer.events(item),
      last: () => answer.lastEvents(finish()),
      failure: (error) => {
        context.reportError(error, request);
        return answer.failure(error);
      },
      ended: () => {
        releaseBody();
        group.release();
      },
    });
  }
  await group.collect((item) => answer.events(item));
  return group.releasing(finish);
}

interface Answered {
  readonly body: ResponseBody;
  readonly answer: ResponseAnswer;
  readonly wire: object;
  readonly bodyBytes: number;
}

function keep({ responses }: ServerContext, { body, answer, wire, bodyBytes }: Answered): void {
  const { id, messages, images, previous } = body;
  // The answer's texts are in its items and in the message.
  const own = bodyBytes + 4 * answer.units + RESPONSE_BYTES;
  const bytes = own + (previous?.bytes ?? 0);
  responses.add({ id, wire, messages: [...messages, answer.message], images, bytes });
}

/** The methods of `/v1/responses/{id}`. @throws {HttpError} when it is not kept. */
export function handleResponse(context: ServerContext, request: Request, id: string): Response {
  if (request.method !== "DELETE") return retrieveResponse(context, request, id);
  context.responses.delete(id);
  return Response.json({ id, object: "response", deleted: true });
}

function retrieveResponse(context: ServerContext, request: Request, id: string): Response {
  const { searchParams } = new URL(request.url);
  const asked = ["stream", "starting_after"].find((name) => searchParams.has(name));
  if (asked !== undefined && searchParams.get(asked) !== "false") {
    throw new UnsupportedError(asked, "a response is kept as a whole", { field: asked });
  }
  return Response.json(context.responses.get(id).wire);
}
