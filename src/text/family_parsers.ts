/**
 * Which parsers read what a family of models writes.
 *
 * @module
 */
import { familyNamed } from "./families.ts";
import { REASONING_PARSERS, type ReasoningParserName } from "./reasoning/formats.ts";
import { TOOL_CALL_PARSERS, type ToolCallParserName } from "./tool_calls/formats.ts";

/** Absent where the family has no such form, or one that no parser reads. */
export interface FamilyParsers {
  readonly toolCalls?: ToolCallParserName;
  readonly reasoning?: ReasoningParserName;
}

/**
 * The forms of tool calls and of reasoning for `createMessageParser`.
 *
 * @param family `ModelDescription.family`.
 * @throws {InvalidRequestError} listing the known names.
 */
export function parsersOf(family: string): FamilyParsers {
  const known = familyNamed(family);
  const toolCalls = TOOL_CALL_PARSERS.find((name) => name === known.toolCalls);
  const reasoning = REASONING_PARSERS.find((name) => name === known.reasoning);
  return { ...(toolCalls && { toolCalls }), ...(reasoning && { reasoning }) };
}
