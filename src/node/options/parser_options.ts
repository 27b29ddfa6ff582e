/**
 * Options for the forms in which a model writes tool calls and reasoning.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { requireOneKind } from "../../text/message_parser.ts";
import { REASONING_PARSERS } from "../../text/reasoning/formats.ts";
import { TOOL_CALL_PARSERS } from "../../text/tool_calls/formats.ts";
import { OptionError, type OptionTable, type OptionValues } from "./option_parser.ts";

const MODEL = "Model";

export const PARSER_OPTIONS = {
  toolCallParser: {
    flags: ["--tool-call-parser"],
    kind: "string",
    choices: TOOL_CALL_PARSERS,
    defaultText: "none: calls stay in the content",
    help: "form in which the model calls the tools of a chat; hermes is another name for qwen25",
    group: MODEL,
  },
  reasoningParser: {
    flags: ["--reasoning-parser"],
    kind: "string",
    choices: REASONING_PARSERS,
    defaultText: "none: reasoning stays in the content",
    help:
      "form of the model's reasoning: deepseek-r1 and qwen3-thinking always think, deepseek-v3 and qwen3 " +
      "where the answer begins with <think> or the request asks for it (chat_template_kwargs)",
    group: MODEL,
  },
} as const satisfies OptionTable;

/** @throws {OptionError} when the two forms are of different kinds of models. */
export function requireOneKindOfParsers({
  toolCallParser,
  reasoningParser,
}: OptionValues<typeof PARSER_OPTIONS>): void {
  try {
    requireOneKind({ toolCalls: toolCallParser, reasoning: reasoningParser });
  } catch (cause) {
    if (!(cause instanceof InvalidRequestError)) throw cause;
    throw new OptionError(cause.message, { cause });
  }
}
