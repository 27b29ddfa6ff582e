/**
 * `GET /v1/models` and `GET /v1/models/{id}`: the one model that is served, by each of its names.
 *
 * @module
 */
import { HttpError } from "../../http/error_response.ts";
import type { ServerContext } from "../server_context.ts";

export function listModels(context: ServerContext): Response {
  const data = context.modelNames.map((name) => modelCard(name, context));
  return Response.json({ object: "list", data });
}

/** @throws {HttpError} when it is another model's id. */
export function retrieveModel(context: ServerContext, id: string): Response {
  if (context.modelNames.includes(id)) return Response.json(modelCard(id, context));
  throw unknownModel(id);
}

export function unknownModel(id: string): HttpError {
  return new HttpError(
    "model_not_found",
    `Cannot find the model ${JSON.stringify(id)}: it is not served here`,
    { field: "model" },
  );
}

function modelCard(name: string, { engine, startedAt }: ServerContext): object {
  return {
    id: name,
    object: "model",
    created: startedAt,
    owned_by: "wisp",
    root: engine.model.path,
    max_model_len: engine.model.contextLength,
  };
}
