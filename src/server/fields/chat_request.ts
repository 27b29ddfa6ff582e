/**
 * Body of `/v1/chat/completions` -> one `GenerationRequest` for each choice.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type {
  ChatMessage,
  ChatToolCall,
  GenerationRequest,
  ModelDescription,
} from "../../generation.ts";
import type { BodyShare } from "../../http/body_memory.ts";
import { Fields, outOfRange, present, requireString } from "../../http/fields.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import type { MessageParserOptions } from "../../text/message_parser.ts";
import { requirePlaces } from "../queue_room.ts";
import type { ServerContext } from "../server_context.ts";
import { readStreamOptions, type StreamOptions } from "../wire/usage.ts";
import { readCacheSalt, readStorePrefix } from "./cache_fields.ts";
import { type Conversation, conversationRequest, withModelDefaults } from "./conversation.ts";
import { ItemLimit, MAX_MESSAGE_ITEMS, readName, requireName } from "./field_limits.ts";
import {
  IDLE_CALLED_FUNCTION_FIELDS,
  IDLE_CHAT_FIELDS,
  IDLE_MESSAGE_FIELDS,
  IDLE_TOOL_CALL_FIELDS,
} from "./idle_fields.ts";
import { readChatLogprobs } from "./logprob_fields.ts";
import { type ContentOptions, readContent, WrittenImages } from "./message_content.ts";
import { readDataParallelRank } from "./replica_field.ts";
import { readSampleCount, requestGroups, withSamples } from "./samples.ts";
import {
  readMaxTokens,
  readMinNewTokens,
  readOpenaiSampling,
  readSeed,
} from "./sampling_fields.ts";
import { readThinking } from "./thinking_fields.ts";
import { readTools } from "./tool_fields.ts";

export interface ChatBody extends StreamOptions {
  /** One for each choice. */
  readonly requests: readonly GenerationRequest[];
  /** The client's id, where it stands for several choices. */
  readonly groups: ReadonlyMap<string, readonly number[]>;
  /** The client's id, which its answer repeats. */
  readonly rid: string | undefined;
  /** As the client wrote it, else the name of the model that is served. */
  readonly model: string;
  readonly stream: boolean;
  /** How each answer is taken apart. */
  readonly parsing: MessageParserOptions;
}

/**
 * The roles that clients write -> those that chat templates know. A template leaves out what it
 * does not know, so that a developer's instructions would be lost without a word.
 */
const ROLES: ReadonlyMap<string, string> = new Map([
  ["system", "system"],
  ["developer", "system"],
  ["user", "user"],
  ["assistant", "assistant"],
  ["tool", "tool"],
  ["function", "tool"],
]);

/**
 * @param share Of the body, where its images are counted too.
 * @throws {CapacityError | HttpError | InvalidRequestError | UnsupportedError} as a rejection, naming
 * the field to blame.
 */
export async function readChatBody(
  body: unknown,
  context: ServerContext,
  share: BodyShare,
): Promise<ChatBody> {
  const { engine, forms, onIdle, servedModelName } = context;
  const { model } = engine;
  const fields = new Fields(body, { onIdle });
  fields.takeIdle(IDLE_CHAT_FIELDS);
  const written = new WrittenImages(model.readsImages === true);
  const messages = readMessages(fields, written);
  const tools = readTools(fields);
  const logprobs = readChatLogprobs(fields);
  const samples = readSampleCount(fields);
  requirePlaces(engine, samples, "n");
  const modelName = readName(fields, "model") || servedModelName;
  const requestId = readName(fields, "rid");
  if (requestId === "") throw new InvalidRequestError("rid cannot be empty", "rid");
  const { templateVariables, maxThinkingTokens } = readThinking(fields, { model, forms });
  const continueFinalMessage = fields.boolean("continue_final_message") || undefined;
  const separatesReasoning = fields.boolean("separate_reasoning");
  const streamsReasoning = fields.boolean("stream_reasoning");
  const sampling = readSampling(fields, model);
  const cacheSalt = readCacheSalt(fields);
  const storePrefix = readStorePrefix(fields, { model });
  const priority = fields.integer("priority");
  const dataParallelRank = readDataParallelRank(fields, model);
  const stream = fields.boolean("stream") ?? false;
  const streamOptions = readStreamOptions(fields, stream);
  const isMeasured = fields.boolean("log_metrics");
  fields.end();
  const images = await written.read({ share, media: context.media });
  const conversation = present<Conversation>({
    messages,
    images,
    tools,
    templateVariables,
    continueFinalMessage,
    separatesReasoning,
    streamsReasoning,
    maxThinkingTokens,
    sampling,
    logprobs,
    requestId,
    cacheSalt,
    storePrefix,
    isMeasured,
    priority,
    dataParallelRank,
  });
  const form = "response_format, regex or ebnf";
  const { request, parsing } = conversationRequest(conversation, { forms, form });
  const requests = withSamples([request], samples);
  const groups = requestGroups([requestId], { samples });
  return { requests, groups, rid: requestId, model: modelName, stream, parsing, ...streamOptions };
}

function readSampling(fields: Fields, model: ModelDescription): SamplingParams {
  const shared = readOpenaiSampling(fields, model);
  const asked = present<SamplingParams>({
    ...shared,
    maxNewTokens: readLimit(fields),
    seed: readSeed(fields, "seed"),
  });
  const sampling = withModelDefaults(asked, model);
  const minNewTokens = readMinNewTokens(fields, "min_tokens", sampling.maxNewTokens);
  return present<SamplingParams>({ ...sampling, minNewTokens });
}

/** OpenAI's newer name for the limit wins over the older one. */
function readLimit(fields: Fields): number | null | undefined {
  const newer = "max_completion_tokens";
  if (fields.value(newer) === undefined) return readMaxTokens(fields, "max_tokens");
  fields.integer("max_tokens", { min: 1 });
  return readMaxTokens(fields, newer);
}

/** @param images Takes the images of parts. Default: parts are texts only. */
export function readMessages(fields: Fields, images?: WrittenImages): readonly ChatMessage[] {
  const list = fields.list("messages");
  if (list === undefined)
    throw new InvalidRequestError("Cannot chat: messages is missing", "messages");
  if (list.length === 0) throw new InvalidRequestError("messages cannot be empty", "messages");
  const limit = new ItemLimit(MAX_MESSAGE_ITEMS, "messages, their parts and their tool_calls");
  limit.take(list, "messages");
  return list.map((item, i) =>
    readMessage(fields.within(item, `messages[${i}]`), { limit, images }),
  );
}

function readMessage(fields: Fields, { limit, images }: Omit<ContentOptions, "role">): ChatMessage {
  // OpenAI's agents put the number of a message's call beside it.
  fields.integer("index");
  fields.takeIdle(IDLE_MESSAGE_FIELDS);
  const role = readRole(fields);
  const message = present<ChatMessage>({
    role,
    content: readContent(fields, { role, limit, images }),
    reasoning_content: readReasoning(fields, role),
    name: readName(fields, "name"),
    tool_calls: readToolCalls(fields, role, limit),
    tool_call_id: readName(fields, "tool_call_id"),
  });
  fields.end();
  return message;
}

function readRole(fields: Fields): string {
  const written = fields.string("role");
  if (written === undefined) {
    throw new InvalidRequestError(
      `Cannot read the message: ${fields.path("role")} is missing`,
      fields.path("role"),
    );
  }
  const role = ROLES.get(written.toLowerCase());
  if (role !== undefined) return role;
  throw outOfRange(fields.path("role"), `one of ${[...ROLES.keys()].join(", ")}`, written);
}

/** What an assistant has thought; an empty text is nothing. */
function readReasoning(fields: Fields, role: string): string | undefined {
  const reasoning = fields.string("reasoning_content") || undefined;
  if (reasoning === undefined || role === "assistant") return reasoning;
  const path = fields.path("reasoning_content");
  throw new InvalidRequestError(
    `Cannot use ${path}: only messages of the role assistant have it`,
    path,
  );
}

function readToolCalls(
  fields: Fields,
  role: string,
  limit: ItemLimit,
): readonly ChatToolCall[] | undefined {
  const list = fields.list("tool_calls");
  if (list === undefined || list.length === 0) return undefined;
  const path = fields.path("tool_calls");
  if (role !== "assistant") {
    throw new InvalidRequestError(
      `Cannot use ${path}: only messages of the role assistant have it`,
      path,
    );
  }
  limit.take(list, path);
  return list.map((item, i) => readToolCall(fields.within(item, `${path}[${i}]`)));
}

function readToolCall(fields: Fields): ChatToolCall {
  const type = fields.string("type") ?? "function";
  if (type !== "function") throw outOfRange(fields.path("type"), '"function"', type);
  const id = readName(fields, "id");
  // Our own answers number their calls; in history the order says the same.
  fields.integer("index");
  fields.takeIdle(IDLE_TOOL_CALL_FIELDS);
  const called = fields.within(fields.value("function"), fields.path("function"));
  called.takeIdle(IDLE_CALLED_FUNCTION_FIELDS);
  const name = requireName(called.value("name"), called.path("name"));
  const text = requireString(called.value("arguments"), called.path("arguments"));
  called.end();
  fields.end();
  return present<ChatToolCall>({ id, type: "function", function: { name, arguments: text } });
}
