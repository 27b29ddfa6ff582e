/**
 * `POST /v1/messages` and `POST /v1/messages/count_tokens`: a conversation in Anthropic's shape.
 *
 * @module
 */
import { clientOf } from "../../http/client_of.ts";
import { eventStream } from "../../http/event_stream.ts";
import { GenerationGroup } from "../generation_group.ts";
import { MessagesAnswer } from "../messages/messages_answer.ts";
import { messagesErrorBody } from "../messages/messages_errors.ts";
import { readCountedBody, readMessagesBody } from "../messages/messages_request.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";
import { asClientWrote } from "../wire/wire_names.ts";

/** @throws before the response starts, so that errors of the request have a status of their own. */
export async function handleMessages(context: ServerContext, request: Request): Promise<Response> {
  const json = await readBody(context, request);
  const body = await readMessagesBody(json, context, context.bodies.of(request));
  const group = await GenerationGroup.answer(context, body, request).catch((error: unknown) => {
    throw asClientWrote(error, { endpoint: "messages", body: json });
  });
  const answer = new MessagesAnswer(body, context);
  if (body.stream) {
    const releaseBody = context.bodies.of(request).keep();
    return eventStream(group, {
      form: "named",
      events: (item) => answer.events(item),
      last: () => answer.lastEvents(group.warnings),
      failure: (error) => {
        context.reportError(error, request);
        return messagesErrorBody(error);
      },
      ended: () => {
        releaseBody();
        group.release();
      },
    });
  }
  await group.collect((item) => answer.events(item));
  return group.releasing(() => answer.wire(group.warnings));
}

export async function handleCountTokens(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const json = await readBody(context, request);
  const asked = await readCountedBody(json, context, context.bodies.of(request));
  const client = clientOf(request);
  const { signal } = request;
  const tokens = await context.engine
    .tokenize({ ...asked, signal, ...(client !== undefined && { client }) })
    .catch((error: unknown) => {
      throw asClientWrote(error, { endpoint: "messages", body: json });
    });
  return Response.json({ input_tokens: tokens.length });
}
