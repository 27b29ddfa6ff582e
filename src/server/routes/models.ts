/**
 * `GET /v1/models` and `GET /v1/models/{id}`: the one model that is served.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";
import type { ServerContext } from "../server_context.ts";

export function listModels(context: ServerContext): Response {
  return Response.json({ object: "list", data: [modelCard(context)] });
}

/** @throws {HttpError} when it is another model's id. */
export function retrieveModel(context: ServerContext, id: string): Response {
  if (id === context.servedModelName) return Response.json(modelCard(context));
  throw new HttpError(
    "model_not_found",
    `Cannot find the model ${JSON.stringify(id)}: it is not served here`,
    { field: "model" },
  );
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
