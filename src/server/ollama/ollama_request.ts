/**
 * Bodies of Ollama's `/api/chat` and `/api/generate` -> a `GenerationRequest`, and how its answer is
 * taken apart.
 *
 * @module
 */

import type { MessageContent } from "../../chat_message.ts";
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import type {
  ChatMessage,
  ChatToolCall,
  GenerationRequest,
  ModelDescription,
} from "../../generation.ts";
import type { BodyShare } from "../../http/body_memory.ts";
import {
  Fields,
  isObject,
  outOfRange,
  present,
  requireString,
  wrongType,
} from "../../http/fields.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import type { MessageParserOptions } from "../../text/message_parser.ts";
import {
  type Conversation,
  conversationRequest,
  withModelDefaults,
} from "../fields/conversation.ts";
import {
  CallLimit,
  ItemLimit,
  MAX_MESSAGE_ITEMS,
  readName,
  requireName,
} from "../fields/field_limits.ts";
import {
  IDLE_OLLAMA_FIELDS,
  IDLE_OLLAMA_GENERATE_FIELDS,
  IDLE_OLLAMA_OPTIONS,
} from "../fields/idle_fields.ts";
import { WrittenImages } from "../fields/message_content.ts";
import { readSeed, readSharedSampling } from "../fields/sampling_fields.ts";
import { wish, wishedVariables } from "../fields/thinking_fields.ts";
import { type RequestTools, readTools } from "../fields/tool_fields.ts";
import type { IdentifiedRequests } from "../live_requests.ts";
import type { ServerContext } from "../server_context.ts";

export interface OllamaBody extends IdentifiedRequests {
  /** As the client wrote it, else the name of the model that is served. */
  readonly model: string;
  readonly stream: boolean;
  /** How the answer is taken apart. */
  readonly parsing: MessageParserOptions;
}

const ROLES = ["system", "user", "assistant", "tool"];
const NO_TOOLS: RequestTools = { shown: undefined, names: [], enforced: undefined };

/**
 * @param share Of the body, where its images are counted too.
 * @throws {CapacityError | HttpError | InvalidRequestError | UnsupportedError} as a rejection, naming
 * the field to blame.
 */
export async function readOllamaChat(
  body: unknown,
  context: ServerContext,
  share: BodyShare,
): Promise<OllamaBody> {
  const fields = new Fields(body, { onIdle: context.onIdle });
  const written = writtenImages(context);
  const messages = readMessages(fields, written);
  const said = { messages, tools: readTools(fields), written };
  return readRest(fields, said, { ...context, share });
}

/** The same of `/api/generate`, whose prompt is a user's message unless it is `raw`. */
export async function readOllamaGenerate(
  body: unknown,
  context: ServerContext,
  share: BodyShare,
): Promise<OllamaBody> {
  const fields = new Fields(body, { onIdle: context.onIdle });
  fields.takeIdle(IDLE_OLLAMA_GENERATE_FIELDS);
  const prompt = fields.string("prompt") ?? "";
  const system = fields.string("system");
  const isRaw = fields.boolean("raw") ?? false;
  if (prompt === "") {
    throw new InvalidRequestError("Cannot generate: prompt is missing", "prompt");
  }
  if (isRaw && system !== undefined) {
    throw new InvalidRequestError("Cannot use system: the prompt is raw", "system");
  }
  const written = writtenImages(context);
  const user = { role: "user", content: readSaid(fields, prompt, written) };
  const messages = system === undefined ? [user] : [{ role: "system", content: system }, user];
  const said = { messages, tools: NO_TOOLS, written, raw: isRaw ? prompt : undefined };
  return readRest(fields, said, { ...context, share });
}

const writtenImages = ({ engine }: ServerContext) =>
  new WrittenImages(engine.model.readsImages === true);

interface Said {
  readonly messages: readonly ChatMessage[];
  readonly tools: RequestTools;
  readonly written: WrittenImages;
  /** A prompt that is used as it is, in place of the messages. */
  readonly raw?: string | undefined;
}

async function readRest(
  fields: Fields,
  { messages, tools, written, raw }: Said,
  { engine, forms, servedModelName, media, share }: ServerContext & { readonly share: BodyShare },
): Promise<OllamaBody> {
  fields.takeIdle(IDLE_OLLAMA_FIELDS);
  const model = readName(fields, "model") || servedModelName;
  const stream = fields.boolean("stream") ?? true;
  const templateVariables = readThink(fields, { model: engine.model, forms });
  if (raw !== undefined && templateVariables !== undefined) {
    throw new InvalidRequestError("Cannot use think: the prompt is raw", "think");
  }
  const sampling = withModelDefaults(readSampling(fields, engine.model), engine.model);
  fields.end();
  const images = await written.read({ share, media });
  const said = { messages, images, tools, templateVariables, sampling };
  const conversation = present<Conversation>(said);
  const options = { forms: raw === undefined ? forms : {}, form: "format" };
  const { request, parsing } = conversationRequest(conversation, options);
  const { messages: _, ...rest } = request;
  const asked: GenerationRequest = raw === undefined ? request : { ...rest, prompt: raw };
  return { requests: [asked], groups: new Map(), model, stream, parsing };
}

function readThink(
  fields: Fields,
  options: Pick<ServerContext, "forms"> & { readonly model: ModelDescription },
): Readonly<Record<string, unknown>> | undefined {
  const think = fields.value("think");
  if (think === undefined) return undefined;
  const isEffort = think === "low" || think === "medium" || think === "high";
  if (typeof think !== "boolean" && !isEffort) {
    throw outOfRange("think", "true, false, low, medium or high", think);
  }
  const variables = wishedVariables(
    isEffort
      ? { effort: wish(fields, "think", think) }
      : { isOn: wish(fields, "think", think as boolean) },
    options,
  );
  return Object.keys(variables).length === 0 ? undefined : variables;
}

/** The object `options`, and the form of the answer. */
function readSampling(fields: Fields, model: ModelDescription): SamplingParams {
  const options = fields.object("options") ?? fields.within({}, "options");
  options.takeIdle(IDLE_OLLAMA_OPTIONS);
  options.alias("repetition_penalty", "repeat_penalty");
  const limit = options.integer("num_predict", { min: -2 });
  const sampling = present<SamplingParams>({
    ...readSharedSampling(options, model),
    seed: readSeed(options, "seed"),
    // Both of its negative numbers go on until the model ends, or the context does.
    maxNewTokens: limit !== undefined && limit < 0 ? null : limit,
    jsonSchema: readFormat(fields),
  });
  options.end();
  return sampling;
}

function readFormat(fields: Fields): SamplingParams["jsonSchema"] {
  const format = fields.value("format");
  if (format === undefined || format === "") return undefined;
  if (format === "json") return { type: "object" };
  if (isObject(format)) return format;
  throw outOfRange("format", '"json" or a schema', format);
}

function readMessages(fields: Fields, images: WrittenImages): readonly ChatMessage[] {
  const list = fields.list("messages");
  if (list === undefined || list.length === 0) {
    const state = list === undefined ? "is missing" : "cannot be empty";
    throw new InvalidRequestError(`Cannot chat: messages ${state}`, "messages");
  }
  const limit = new ItemLimit(MAX_MESSAGE_ITEMS, "messages and their tool_calls");
  limit.take(list, "messages");
  const called = new CallLimit();
  return list.map((item, i) =>
    readMessage(fields.within(item, `messages[${i}]`), { limit, called, images }),
  );
}

interface MessageOptions {
  readonly limit: ItemLimit;
  readonly called: CallLimit;
  readonly images: WrittenImages;
}

/** A text with the images of its field `images`, which stand in front of it. */
function readSaid(
  fields: Fields,
  text: string | null,
  images: WrittenImages,
): MessageContent | null {
  const list = fields.list("images") ?? [];
  for (const [i, image] of list.entries()) images.add(image, fields.path(`images[${i}]`));
  if (list.length === 0) return text;
  return [...list.map(() => ({ type: "image" as const })), { type: "text", text: text ?? "" }];
}

function readMessage(fields: Fields, { limit, called, images }: MessageOptions): ChatMessage {
  const role = fields.string("role") ?? "";
  if (!ROLES.includes(role)) {
    throw outOfRange(fields.path("role"), `one of ${ROLES.join(", ")}`, role);
  }
  if (role !== "user" && (fields.list("images") ?? []).length > 0) {
    const field = fields.path("images");
    throw new UnsupportedError(field, "only what a user says has images", { field });
  }
  const text = fields.string("content") ?? null;
  const content = role === "user" ? readSaid(fields, text, images) : text;
  const thought = fields.string("thinking") || undefined;
  const calls = fields.list("tool_calls") ?? [];
  limit.take(calls, fields.path("tool_calls"));
  const isAssistant = role === "assistant";
  const other = calls.length > 0 ? "tool_calls" : "thinking";
  if (!isAssistant && (thought !== undefined || calls.length > 0)) {
    const path = fields.path(other);
    const problem = "only messages of the role assistant have it";
    throw new InvalidRequestError(`Cannot use ${path}: ${problem}`, path);
  }
  const message = present<ChatMessage>({
    role,
    content: content === "" && calls.length > 0 ? null : content,
    reasoning_content: thought,
    name: readName(fields, "tool_name"),
    tool_call_id: readName(fields, "tool_call_id"),
    tool_calls:
      calls.length === 0
        ? undefined
        : calls.map((call, i) =>
            readCall(fields.within(call, fields.path(`tool_calls[${i}]`)), called),
          ),
  });
  fields.end();
  return message;
}

/** Its arguments are an object there. */
function readCall(fields: Fields, limit: CallLimit): ChatToolCall {
  const id = readName(fields, "id");
  fields.string("type");
  const called = fields.within(fields.value("function"), fields.path("function"));
  const name = requireName(
    requireString(called.value("name"), called.path("name")),
    called.path("name"),
  );
  called.integer("index");
  const given = called.value("arguments") ?? {};
  const path = called.path("arguments");
  if (!isObject(given)) throw wrongType(path, "an object", given);
  called.end();
  fields.end();
  return present<ChatToolCall>({
    id,
    type: "function",
    function: { name, arguments: limit.write(given, path) },
  });
}
