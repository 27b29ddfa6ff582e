/**
 * Body of `/v1/responses` -> a `GenerationRequest`, and what its answer repeats of it.
 *
 * @module
 */
import { type ChatMessage, newRequestId } from "../../generation.ts";
import type { BodyShare } from "../../http/body_memory.ts";
import {
  Fields,
  isObject,
  outOfRange,
  present,
  requireString,
  wrongType,
} from "../../http/fields.ts";
import { MAX_TEMPLATE_UNITS } from "../../request_limits.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import type { MessageParserOptions } from "../../text/message_parser.ts";
import {
  type Conversation,
  conversationRequest,
  withModelDefaults,
} from "../fields/conversation.ts";
import { readName, requireShortJson } from "../fields/field_limits.ts";
import { IDLE_RESPONSES_FIELDS } from "../fields/idle_fields.ts";
import { WrittenImages } from "../fields/message_content.ts";
import { readSchemaFormat } from "../fields/response_format.ts";
import { readDraw } from "../fields/sampling_fields.ts";
import { readThinking } from "../fields/thinking_fields.ts";
import {
  type FlatTools,
  type RequestTools,
  readFlatTool,
  readToolFields,
  requestTools,
  requireTools,
  type Tool,
  type ToolChoice,
  toolNamed,
} from "../fields/tool_fields.ts";
import type { IdentifiedRequests } from "../live_requests.ts";
import type { ServerContext } from "../server_context.ts";
import { readInput } from "./response_input.ts";
import type { StoredResponse } from "./response_store.ts";

/** UTF-16 units of the JSON of `metadata`, which answers repeat. */
export const MAX_METADATA_UNITS = 16_384;

export interface ResponseBody extends IdentifiedRequests {
  readonly id: string;
  readonly stream: boolean;
  /** Whether it is kept for later requests. */
  readonly store: boolean;
  /** How the answer is taken apart. */
  readonly parsing: MessageParserOptions;
  /** What the answer says of its request. */
  readonly echo: object;
  /** What was said before the answer, without instructions. */
  readonly messages: readonly ChatMessage[];
  /** Those of `messages`, in order. */
  readonly images: readonly Uint8Array[];
  readonly previous: StoredResponse | undefined;
}

/**
 * @param share Of the body, where its images are counted too.
 * @throws {CapacityError | HttpError | InvalidRequestError | UnsupportedError} as a rejection, naming
 * the field to blame.
 */
export async function readResponseBody(
  body: unknown,
  context: ServerContext,
  share: BodyShare,
): Promise<ResponseBody> {
  const { engine, forms, onIdle, responses } = context;
  const fields = new Fields(body, { onIdle });
  fields.takeIdle(IDLE_RESPONSES_FIELDS);
  const written = new WrittenImages(engine.model.readsImages === true);
  const input = readInput(fields, written);
  const previousId = readName(fields, "previous_response_id");
  const previous = previousId === undefined ? undefined : responses.previous(previousId);
  const messages = [...(previous?.messages ?? []), ...input];
  const instructions = fields.string("instructions");
  const system = instructions === undefined ? [] : [{ role: "system", content: instructions }];
  const tools = readTools(fields);
  const id = `resp_${newRequestId()}`;
  const options = { model: engine.model, forms };
  const { templateVariables, maxThinkingTokens } = readThinking(fields, options);
  const asked = present<SamplingParams>({
    ...readDraw(fields),
    jsonSchema: readTextFormat(fields),
    maxNewTokens: fields.integer("max_output_tokens", { min: 1 }),
  });
  const sampling = withModelDefaults(asked, engine.model);
  const stream = fields.boolean("stream") ?? false;
  const store = fields.boolean("store") ?? true;
  const echo = echoOf(fields, { context, sampling, previousId, store });
  fields.end();
  const added = await written.read({ share, media: context.media });
  const images = [...(previous?.images ?? []), ...(added ?? [])];
  const conversation = present<Conversation>({
    messages: [...system, ...messages],
    images: images.length === 0 ? undefined : images,
    tools,
    templateVariables,
    maxThinkingTokens,
    sampling,
    requestId: id,
  });
  const { request, parsing } = conversationRequest(conversation, { forms, form: "text.format" });
  const requests = [request];
  const said = { messages, images, previous };
  return { requests, groups: new Map(), id, stream, store, parsing, echo, ...said };
}

interface EchoOptions {
  readonly context: ServerContext;
  readonly sampling: SamplingParams;
  readonly previousId: string | undefined;
  readonly store: boolean;
}

/** The request's own words, and what stands where it has none. */
function echoOf(fields: Fields, { context, sampling, previousId, store }: EchoOptions): object {
  const metadata = fields.value("metadata") ?? {};
  if (!isObject(metadata)) throw wrongType("metadata", "an object", metadata);
  requireShortJson(metadata, "metadata", MAX_METADATA_UNITS);
  const text = fields.value("text") ?? { format: { type: "text" } };
  requireShortJson(text, "text", MAX_TEMPLATE_UNITS);
  const reasoning = fields.value("reasoning");
  // Without what is not acted on, which may be of any size.
  const effort = (isObject(reasoning) && reasoning.effort) || null;
  return {
    model: readName(fields, "model") || context.servedModelName,
    instructions: fields.value("instructions") ?? null,
    max_output_tokens: fields.value("max_output_tokens") ?? null,
    parallel_tool_calls: fields.value("parallel_tool_calls") ?? true,
    previous_response_id: previousId ?? null,
    reasoning: { effort, summary: null },
    temperature: sampling.temperature,
    top_p: sampling.topP,
    text,
    tool_choice: fields.value("tool_choice") ?? "auto",
    tools: fields.value("tools") ?? [],
    truncation: "disabled",
    background: false,
    store,
    metadata,
  };
}

function readTextFormat(fields: Fields): SamplingParams["jsonSchema"] {
  const text = fields.object("text");
  const format = text?.object("format");
  if (text !== undefined) {
    // How much a model writes, which no chat template here knows.
    if (text.string("verbosity") !== undefined) text.ignore("verbosity");
    text.end();
  }
  if (format === undefined) return undefined;
  const schema = readFormat(format);
  format.end();
  return schema;
}

function readFormat(format: Fields): SamplingParams["jsonSchema"] {
  const type = format.string("type");
  switch (type) {
    case "text":
      return undefined;
    case "json_object":
      return { type: "object" };
    case "json_schema":
      return readSchemaFormat(format);
    default:
      throw outOfRange(format.path("type"), "one of text, json_object, json_schema", type);
  }
}

const FLAT_TOOLS: FlatTools = {
  type: "function",
  schema: "parameters",
  refusal: "only functions are there",
};

function readTools(fields: Fields): RequestTools {
  const tools = readToolFields(fields).map((tool) => readFlatTool(tool, FLAT_TOOLS));
  const choice = readChoice(fields, tools);
  const parallel = fields.boolean("parallel_tool_calls") ?? true;
  return requestTools(tools, { choice, parallel });
}

function readChoice(fields: Fields, tools: readonly Tool[]): ToolChoice {
  const choice = fields.value("tool_choice") ?? "auto";
  if (choice === "auto" || choice === "none") return choice;
  if (choice === "required") {
    requireTools(tools);
    return choice;
  }
  if (!isObject(choice)) {
    throw outOfRange("tool_choice", "none, auto, required or an object with a function", choice);
  }
  const named = fields.within(choice, "tool_choice");
  const type = named.string("type");
  if (type !== "function") throw outOfRange(named.path("type"), '"function"', type);
  requireTools(tools);
  const path = named.path("name");
  const tool = toolNamed(requireString(named.value("name"), path), { tools, path });
  named.end();
  return tool;
}
