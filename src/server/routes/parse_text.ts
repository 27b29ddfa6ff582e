/**
 * `POST /parse_function_call` and `POST /separate_reasoning`: the parsers of chat answers over a text
 * that is there already.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { Fields, outOfRange, requireString } from "../../http/fields.ts";
import {
  createMessageParser,
  type MessageEvent,
  type MessageParserOptions,
} from "../../text/message_parser.ts";
import { REASONING_PARSERS } from "../../text/reasoning/formats.ts";
import { TOOL_CALL_PARSERS } from "../../text/tool_calls/formats.ts";
import { readToolNames } from "../fields/tool_fields.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";

export async function handleParseFunctionCall(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const fields = new Fields(await readBody(context, request));
  const text = requireString(fields.value("text"), "text");
  const tools = readToolNames(fields);
  const toolCalls =
    readForm(fields, "tool_call_parser", TOOL_CALL_PARSERS) ?? context.forms.toolCalls;
  fields.end();
  if (toolCalls === undefined) throw missing("tool_call_parser", "--tool-call-parser");

  const events = parse(text, { toolCalls, tools });
  const calls = events.flatMap((event) =>
    event.type === "call"
      ? {
          tool_index: tools.indexOf(event.name),
          name: event.name,
          parameters: joined(events, (other) => {
            const isOwn = other.type === "arguments" && other.index === event.index;
            return isOwn ? other.text : "";
          }),
        }
      : [],
  );
  return Response.json({ normal_text: textOf(events, "content"), calls });
}

export async function handleSeparateReasoning(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const fields = new Fields(await readBody(context, request));
  const text = requireString(fields.value("text"), "text");
  const reasoning =
    readForm(fields, "reasoning_parser", REASONING_PARSERS) ?? context.forms.reasoning;
  fields.end();
  if (reasoning === undefined) throw missing("reasoning_parser", "--reasoning-parser");

  const events = parse(text, { reasoning });
  const reasoningText = textOf(events, "reasoning");
  return Response.json({ reasoning_text: reasoningText, text: textOf(events, "content") });
}

function parse(text: string, options: MessageParserOptions): readonly MessageEvent[] {
  const parser = createMessageParser(options);
  return [...parser.push(text), ...parser.end()];
}

function textOf(events: readonly MessageEvent[], type: "content" | "reasoning"): string {
  return joined(events, (event) => (event.type === type ? event.text : ""));
}

function joined(events: readonly MessageEvent[], text: (event: MessageEvent) => string): string {
  return events.map(text).join("");
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
