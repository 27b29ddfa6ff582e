/**
 * `GET /v1/models` and `GET /v1/models/{id}`: the one model that is served.
 *
 * @module
 */
import type { ServerContext } from "./server_context.ts";

export function listModels(context: ServerContext): Response {
  return Response.json({ object: "list", data: [modelCard(context)] });
}

/** Answers with the one error body that OpenAI nests, because its clients read it there. */
export function retrieveModel(context: ServerContext, id: string): Response {
  if (id === context.servedModelName) return Response.json(modelCard(context));
  const error = {
    message: `Cannot find the model ${JSON.stringify(id)}: it is not served here`,
    type: "invalid_request_error",
    param: "model",
    code: "model_not_found",
  };
  return Response.json({ error }, { status: 404 });
}

function modelCard({ engine, servedModelName, startedAt }: ServerContext): object {
  return {
    id: servedModelName,
    object: "model",
    created: startedAt,
    owned_by: "wisp",
    root: engine.model.path,
    max_model_len: engine.model.contextLength,
  };
}
