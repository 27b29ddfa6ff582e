/**
 * Ollama's `POST /api/chat` and `POST /api/generate`.
 *
 * @module
 */
import { flatError } from "../../http/error_response.ts";
import { eventStream } from "../../http/event_stream.ts";
import { GenerationGroup } from "../generation_group.ts";
import { OllamaAnswer, type OllamaForm } from "../ollama/ollama_answer.ts";
import { readOllamaChat, readOllamaGenerate } from "../ollama/ollama_request.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";
import { asClientWrote } from "../wire/wire_names.ts";

export function handleOllamaChat(context: ServerContext, request: Request): Promise<Response> {
  return answer(context, request, "chat");
}

export function handleOllamaGenerate(context: ServerContext, request: Request): Promise<Response> {
  return answer(context, request, "generate");
}

/** @throws before the response starts, so that errors of the request have a status of their own. */
async function answer(
  context: ServerContext,
  request: Request,
  form: OllamaForm,
): Promise<Response> {
  const json = await readBody(context, request);
  const read = form === "chat" ? readOllamaChat : readOllamaGenerate;
  const body = await read(json, context, context.bodies.of(request));
  const answered = new OllamaAnswer(body, form);
  const group = await GenerationGroup.answer(context, body, request).catch((error: unknown) => {
    throw asClientWrote(error, { endpoint: "ollama", body: json });
  });
  if (body.stream) {
    const releaseBody = context.bodies.of(request).keep();
    return eventStream(group, {
      form: "lines",
      events: (item) => answered.events(item),
      last: () => answered.lastEvents(group.warnings),
      failure: (error) => {
        context.reportError(error, request);
        return { error: flatError(error).message };
      },
      ended: () => {
        releaseBody();
        group.release();
      },
    });
  }
  await group.collect((item) => answered.events(item));
  return group.releasing(() => answered.wire(group.warnings));
}
