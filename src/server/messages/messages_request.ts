/**
 * Body of `/v1/messages` -> a `GenerationRequest`, and how its answer is taken apart.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { newRequestId, type TokenizeRequest } from "../../generation.ts";
import type { BodyShare } from "../../http/body_memory.ts";
import { Fields, outOfRange, present, requireString } from "../../http/fields.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import type { MessageParserOptions } from "../../text/message_parser.ts";
import {
  type Conversation,
  conversationRequest,
  withModelDefaults,
} from "../fields/conversation.ts";
import { readName } from "../fields/field_limits.ts";
import { IDLE_MESSAGES_FIELDS } from "../fields/idle_fields.ts";
import { WrittenImages } from "../fields/message_content.ts";
import { readSchemaFormat } from "../fields/response_format.ts";
import { readDraw, readStop, readTopK } from "../fields/sampling_fields.ts";
import {
  readThinkingType,
  thinkingLimit,
  type Wish,
  wish,
  wishedVariables,
} from "../fields/thinking_fields.ts";
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
import { readTurns } from "./message_turns.ts";

export interface MessagesBody extends IdentifiedRequests {
  readonly id: string;
  /** As the client wrote it, else the name of the model that is served. */
  readonly model: string;
  readonly stream: boolean;
  /** How the answer is taken apart. */
  readonly parsing: MessageParserOptions;
  /** Whether thoughts are told, and not only that there were some. */
  readonly showsThinking: boolean;
}

/** Thoughts are told as they are, or not at all. */
const DISPLAYS = ["summarized", "omitted"];
const EFFORTS = ["low", "medium", "high", "xhigh", "max"];

/**
 * @param share Of the body, where its images are counted too.
 * @throws {CapacityError | HttpError | InvalidRequestError | UnsupportedError} as a rejection, naming
 * the field to blame.
 */
export async function readMessagesBody(
  body: unknown,
  context: ServerContext,
  share: BodyShare,
): Promise<MessagesBody> {
  const { engine, forms, onIdle, servedModelName } = context;
  const fields = new Fields(body, { onIdle });
  const { conversation, written, showsThinking } = readAsked(fields, context);
  const id = `msg_${newRequestId()}`;
  const model = readName(fields, "model") || servedModelName;
  const stream = fields.boolean("stream") ?? false;
  const asked = present<SamplingParams>({
    ...conversation.sampling,
    ...readDraw(fields),
    topK: readTopK(fields),
    stop: readStop(fields, "stop_sequences"),
    maxNewTokens: readMaxTokens(fields),
  });
  fields.end();
  const sampling = withModelDefaults(asked, engine.model);
  const form = "output_config.format";
  const images = await written.read({ share, media: context.media });
  const whole = present<Conversation>({ ...conversation, images, sampling, requestId: id });
  const { request, parsing } = conversationRequest(whole, { forms, form });
  return { requests: [request], groups: new Map(), id, model, stream, parsing, showsThinking };
}

/** The same of `/v1/messages/count_tokens`, which has no fields about the answer's text. */
export async function readCountedBody(
  body: unknown,
  context: ServerContext,
  share: BodyShare,
): Promise<TokenizeRequest> {
  const fields = new Fields(body, { onIdle: context.onIdle });
  const { conversation, written } = readAsked(fields, context);
  readName(fields, "model");
  fields.end();
  const images = await written.read({ share, media: context.media });
  const { messages, tools, templateVariables, continueFinalMessage } = conversation;
  return present<TokenizeRequest>({
    messages,
    images,
    tools: tools.shown,
    templateVariables,
    continueFinalMessage,
  });
}

interface Asked {
  readonly conversation: Conversation;
  readonly written: WrittenImages;
  readonly showsThinking: boolean;
}

/** The fields of both. */
function readAsked(fields: Fields, { engine, forms }: ServerContext): Asked {
  fields.takeIdle(IDLE_MESSAGES_FIELDS);
  const written = new WrittenImages(engine.model.readsImages === true);
  const messages = readTurns(fields, written);
  const tools = readTools(fields);
  const options = { model: engine.model, forms };
  const thinking = fields.object("thinking");
  const isOn = thinking && readIsOn(thinking, engine.model.thinkingVariables);
  const budget = thinking?.integer("budget_tokens", { min: 0 });
  const limit = thinking && wish(thinking, "budget_tokens", budget);
  const display = thinking && readDisplay(thinking);
  thinking?.end();
  const output = fields.object("output_config");
  const effort = output && readEffort(output);
  const jsonSchema = output && readFormat(output);
  output?.end();
  const variables = wishedVariables({ isOn, effort }, options);
  const last = messages.at(-1)!;
  const isBegun = last.role === "assistant" && last.tool_calls === undefined;
  const conversation = present<Conversation>({
    messages,
    tools,
    templateVariables: Object.keys(variables).length === 0 ? undefined : variables,
    continueFinalMessage: isBegun || undefined,
    maxThinkingTokens: limit && thinkingLimit(limit, options),
    sampling: present<SamplingParams>({ jsonSchema }),
  });
  return { conversation, written, showsThinking: display !== "omitted" };
}

/** To be allowed to think asks nothing of a model that has no switch for it. */
function readIsOn(thinking: Fields, variables: readonly string[]): Wish<boolean> | undefined {
  const isOn = readThinkingType(thinking);
  if (isOn?.value !== true || variables.some((name) => name !== "reasoning_effort")) return isOn;
  isOn.ignored();
  return undefined;
}

function readDisplay(thinking: Fields): string | undefined {
  const display = thinking.string("display");
  if (display === undefined || DISPLAYS.includes(display)) return display;
  throw outOfRange(thinking.path("display"), `one of ${DISPLAYS.join(", ")}`, display);
}

/** Models here know three; more than high is high. */
function readEffort(output: Fields): Wish<string> | undefined {
  const effort = output.string("effort");
  if (effort === undefined) return undefined;
  if (!EFFORTS.includes(effort)) {
    throw outOfRange(output.path("effort"), `one of ${EFFORTS.join(", ")}`, effort);
  }
  return wish(output, "effort", effort === "xhigh" || effort === "max" ? "high" : effort);
}

function readFormat(output: Fields): SamplingParams["jsonSchema"] {
  const format = output.object("format");
  if (format === undefined) return undefined;
  const type = format.string("type");
  if (type !== "json_schema") throw outOfRange(format.path("type"), '"json_schema"', type);
  const schema = readSchemaFormat(format);
  format.end();
  return schema;
}

/** The one interface that wants it said. */
function readMaxTokens(fields: Fields): number {
  const limit = fields.integer("max_tokens", { min: 1 });
  if (limit !== undefined) return limit;
  throw new InvalidRequestError("Cannot answer: max_tokens is missing", "max_tokens");
}

const FLAT_TOOLS: FlatTools = {
  type: "custom",
  untyped: "custom",
  schema: "input_schema",
  refusal: "only tools of the client are there",
};

function readTools(fields: Fields): RequestTools {
  const tools = readToolFields(fields).map((tool) => readFlatTool(tool, FLAT_TOOLS));
  const asked = fields.object("tool_choice");
  const isAlone = asked?.boolean("disable_parallel_tool_use") ?? false;
  const choice = asked === undefined ? "auto" : readChoice(asked, tools);
  asked?.end();
  return requestTools(tools, { choice, parallel: !isAlone });
}

function readChoice(asked: Fields, tools: readonly Tool[]): ToolChoice {
  const type = asked.string("type");
  if (type === "auto" || type === "none") return type;
  if (type !== "any" && type !== "tool") {
    throw outOfRange(asked.path("type"), "one of auto, any, tool, none", type);
  }
  requireTools(tools);
  if (type === "any") return "required";
  const path = asked.path("name");
  return toolNamed(requireString(asked.value("name"), path), { tools, path });
}
