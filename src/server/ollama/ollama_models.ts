/**
 * What Ollama's clients ask about the model and the server: `GET /api/tags`, `GET /api/ps`,
 * `POST /api/show` and `GET /api/version`.
 *
 * @module
 */
import { Fields } from "../../http/fields.ts";
import { readName } from "../fields/field_limits.ts";
import { readBody } from "../request_body.ts";
import { unknownModel } from "../routes/models.ts";
import type { ServerContext } from "../server_context.ts";

/** The names of the model, as a list of models. */
export function handleOllamaTags(context: ServerContext): Response {
  return Response.json({ models: modelCards(context) });
}

/** Those of them that are on the device: none while the model sleeps. */
export function handleOllamaPs(context: ServerContext): Response {
  const { engine } = context;
  const { sleep, weightBytes, cacheBytes } = engine.status();
  const running = sleep === undefined ? modelCards(context) : [];
  const models = running.map((card) => ({
    ...card,
    size_vram: weightBytes + cacheBytes,
    context_length: engine.model.contextLength,
    // It leaves when the server does: the greatest time that dates of JavaScript and Go both have.
    expires_at: "9999-12-31T23:59:59.000Z",
  }));
  return Response.json({ models });
}

/** @throws {HttpError} when it is another model's name. */
export async function handleOllamaShow(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const { engine, modelNames, forms, startedAt } = context;
  const fields = new Fields(await readBody(context, request), { onIdle: context.onIdle });
  // Nothing more is known.
  fields.boolean("verbose");
  fields.alias("model", "name");
  const name = readName(fields, "model") ?? "";
  fields.end();
  if (!modelNames.includes(name)) throw unknownModel(name);
  const { modelType = "", architecture, contextLength, hiddenSize, readsImages } = engine.model;
  const thinks = forms.reasoning !== undefined || engine.model.thinkingVariables.length > 0;
  return Response.json({
    modelfile: "",
    parameters: "",
    template: "",
    details: detailsOf(context),
    model_info: {
      "general.architecture": modelType,
      "general.name": architecture,
      [`${modelType}.context_length`]: contextLength,
      [`${modelType}.embedding_length`]: hiddenSize,
    },
    capabilities: [
      "completion",
      ...(forms.toolCalls === undefined ? [] : ["tools"]),
      ...(thinks ? ["thinking"] : []),
      ...(readsImages === true ? ["vision"] : []),
    ],
    modified_at: new Date(startedAt * 1000).toISOString(),
  });
}

/** This server's own. */
export function handleOllamaVersion({ description }: ServerContext): Response {
  return Response.json({ version: String(description.version ?? "0.0.0") });
}

function modelCards(context: ServerContext): readonly object[] {
  const { engine, modelNames, startedAt } = context;
  const { weightBytes } = engine.status();
  return modelNames.map((name) => ({
    name,
    model: name,
    modified_at: new Date(startedAt * 1000).toISOString(),
    size: weightBytes,
    digest: "",
    details: detailsOf(context),
  }));
}

function detailsOf({ engine }: ServerContext): object {
  const { modelType = "" } = engine.model;
  return {
    parent_model: "",
    format: "safetensors",
    family: modelType,
    families: [modelType],
    parameter_size: "",
    quantization_level: "",
  };
}
