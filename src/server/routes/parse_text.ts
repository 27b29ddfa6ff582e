/**
 * `POST /parse_function_call` and `POST /separate_reasoning`: the parsers of chat answers over a text
 * that is there already.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { ModelDescription } from "../../generation.ts";
import { Fields, outOfRange, requireString } from "../../http/fields.ts";
import { jsonResponse } from "../../http/json_response.ts";
import {
  createMessageParser,
  type MessageEvent,
  type MessageParserOptions,
} from "../../text/message_parser.ts";
import { REASONING_PARSERS } from "../../text/reasoning/formats.ts";
import { TOOL_CALL_PARSERS } from "../../text/tool_calls/formats.ts";
import { turns } from "../../turns.ts";
import { readToolNames } from "../fields/tool_fields.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";

/** Characters of a text for each token of the context: twice what tokens of most texts have. */
export const UNITS_PER_TOKEN = 8;
/** Characters of a text that are always read. */
export const LEAST_UNITS = 256 * 1024;
/** Characters that are parsed in one go: well below a millisecond, cold ones included. */
const SLICE_UNITS = 1024;

export async function handleParseFunctionCall(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const fields = new Fields(await readBody(context, request));
  const text = readAnswer(fields, context.engine.model);
  const tools = readToolNames(fields);
  const toolCalls =
    readForm(fields, "tool_call_parser", TOOL_CALL_PARSERS) ?? context.forms.toolCalls;
  fields.end();
  if (toolCalls === undefined) throw missing("tool_call_parser", "--tool-call-parser");

  const places = new Map(tools.map((name, i) => [name, i] as const).reverse());
  const calls: { tool_index: number; name: string; parameters: string }[] = [];
  let content = "";
  await parse(text, { toolCalls, tools }, (event) => {
    if (event.type === "call") {
      const { name } = event;
      calls.push({ tool_index: places.get(name) ?? -1, name, parameters: "" });
    } else if (event.type === "arguments") {
      calls[event.index]!.parameters += event.text;
    } else if (event.type === "content") {
      content += event.text;
    }
  });
  return jsonResponse({ normal_text: content, calls });
}

export async function handleSeparateReasoning(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const fields = new Fields(await readBody(context, request));
  const text = readAnswer(fields, context.engine.model);
  const reasoning =
    readForm(fields, "reasoning_parser", REASONING_PARSERS) ?? context.forms.reasoning;
  fields.end();
  if (reasoning === undefined) throw missing("reasoning_parser", "--reasoning-parser");

  const texts = { reasoning: "", content: "" };
  await parse(text, { reasoning }, (event) => {
    if (event.type === "reasoning" || event.type === "content") texts[event.type] += event.text;
  });
  return jsonResponse({ reasoning_text: texts.reasoning, text: texts.content });
}

/** The field `text`, which is no longer than an answer can be. */
function readAnswer(fields: Fields, { contextLength }: ModelDescription): string {
  const text = requireString(fields.value("text"), "text");
  const most = Math.max(LEAST_UNITS, UNITS_PER_TOKEN * contextLength);
  if (text.length <= most) return text;
  const field = "text";
  throw new InvalidRequestError(
    `${field} must be at most ${most} characters, got ${text.length}`,
    field,
  );
}

/** In slices, between which other requests have their turns. */
async function parse(
  text: string,
  options: MessageParserOptions,
  take: (event: MessageEvent) => void,
): Promise<void> {
  const parser = createMessageParser(options);
  for (let from = 0; from < text.length; from += SLICE_UNITS) {
    parser.push(text.slice(from, from + SLICE_UNITS)).forEach(take);
    if (turns.isDue) await turns.take();
  }
  parser.end().forEach(take);
}

function readForm<Name extends string>(
  fields: Fields,
  field: string,
  names: readonly Name[],
): Name | undefined {
  const given = fields.string(field);
  if (given === undefined) return undefined;
  const name = names.find((known) => known === given);
  if (name !== undefined) return name;
  throw outOfRange(field, `one of ${names.join(", ")}`, given);
}

function missing(field: string, option: string): InvalidRequestError {
  const message = `Cannot parse without ${field}: the server was started without ${option}`;
  return new InvalidRequestError(message, field);
}
