/**
 * `tools` of a request and the fields about them.
 *
 * @module
 */

import type { Constraint } from "../../constraint.ts";
import { InvalidRequestError, UnsupportedError } from "../../errors.ts";
import { jsonSource } from "../../grammar/constraints/json_source.ts";
import { TOOL_FORMATS, type ToolConstraint } from "../../grammar/constraints/tool_grammar.ts";
import { type Fields, isObject, outOfRange, requireString, wrongType } from "../../http/fields.ts";
import { MAX_TEMPLATE_UNITS } from "../../request_limits.ts";
import type { ToolCallParserName } from "../../text/tool_calls/formats.ts";
import { MAX_TOOLS, readShortList, requireName, requireShortJson } from "./field_limits.ts";
import { IDLE_FLAT_TOOL_FIELDS, IDLE_TOOL_FIELDS } from "./idle_fields.ts";

export interface RequestTools {
  /** As the client wrote them, for the chat template, without nulls; absent when it is to see none. */
  readonly shown: readonly unknown[] | undefined;
  /** Names of those that may be called. */
  readonly names: readonly string[];
  /** What of it the model is held to; absent where it may write as it likes. */
  readonly enforced: EnforcedCalls | undefined;
}

export type EnforcedCalls = Omit<ToolConstraint, "format">;

export interface Tool {
  /** What the chat template is given of it. */
  readonly shown: object;
  readonly name: string;
  /** JSON schema of its arguments. */
  readonly parameters: unknown;
  /** Whether they must fit it even where the model may call or not. */
  readonly isStrict: boolean;
}

/** What is to be called: of a string "auto" leaves it to the model. */
export type ToolChoice = "none" | "auto" | "required" | Tool;

/** The fields `tools`, `tool_choice` and `parallel_tool_calls`. */
export function readTools(fields: Fields): RequestTools {
  const tools = readToolList(fields);
  const choice = readChoice(fields, tools);
  const parallel = fields.boolean("parallel_tool_calls") ?? true;
  return requestTools(tools, { choice, parallel });
}

/**
 * With the choice "none" the model does not get to know the tools, with a tool chosen by name it knows
 * of no other.
 *
 * @param options `parallel`: whether an answer may have several calls.
 */
export function requestTools(
  tools: readonly Tool[],
  { choice, parallel }: { readonly choice: ToolChoice; readonly parallel: boolean },
): RequestTools {
  if (tools.length === 0 || choice === "none") {
    return { shown: undefined, names: [], enforced: undefined };
  }
  const isFree = choice === "auto" && parallel && !tools.some(({ isStrict }) => isStrict);
  if (isFree) {
    return { shown: shownOf(tools), names: tools.map(({ name }) => name), enforced: undefined };
  }
  const wanted = typeof choice === "string" ? tools : [choice];
  const names = wanted.map(({ name }) => name);
  const functions = wanted.map(({ name, parameters, isStrict }) =>
    choice === "auto" && !isStrict ? { name } : { name, parameters },
  );
  return {
    shown: shownOf(wanted),
    names,
    enforced: { functions, required: choice !== "auto", parallel },
  };
}

/**
 * The constraint that holds a model to it.
 *
 * @throws {UnsupportedError} when the server does not know the form of the model's calls, or it has
 * no grammar.
 * @throws {InvalidRequestError} when parameters nest too deep.
 */
export function toolConstraint(
  enforced: EnforcedCalls,
  format: ToolCallParserName | undefined,
): Constraint {
  const field = enforcingField(enforced);
  const known = format === "hermes" ? "qwen25" : format;
  if (known === undefined) {
    throw new UnsupportedError(
      "tool calls that are enforced",
      "the server has no --tool-call-parser",
      { field },
    );
  }
  const form = TOOL_FORMATS.find((name) => name === known);
  if (form === undefined) {
    throw new UnsupportedError(
      `tool calls that are enforced, in the form ${known}`,
      "it has no grammar",
      { field },
    );
  }
  const constraint: ToolConstraint = { format: form, ...enforced };
  return { kind: "tools", source: jsonSource(constraint, "tools") };
}

/** The field `tools`, as the chat template is given them; undefined when it is absent. */
export function readShownTools(fields: Fields): readonly object[] | undefined {
  return fields.value("tools") === undefined ? undefined : shownOf(readToolList(fields));
}

function shownOf(tools: readonly Tool[]): readonly object[] {
  return tools.map(({ shown }) => shown);
}

/** The field that asks for more than a model does by itself. */
function enforcingField({ required, parallel }: EnforcedCalls): string {
  if (required) return "tool_choice";
  return parallel ? "tools" : "parallel_tool_calls";
}

/** Names of the functions in the field `tools`, in its order; none when it is absent. */
export function readToolNames(fields: Fields): readonly string[] {
  return readToolList(fields).map(({ name }) => name);
}

function readToolList(fields: Fields): readonly Tool[] {
  return readToolFields(fields).map(readTool);
}

/** Fields that are not known here are for the chat template. */
function readTool(tool: Fields): Tool {
  tool.takeIdle(IDLE_TOOL_FIELDS);
  const type = tool.string("type") ?? "function";
  if (type !== "function") throw outOfRange(tool.path("type"), '"function"', type);
  const called = tool.within(tool.value("function"), tool.path("function"));
  called.takeIdle(IDLE_TOOL_FIELDS);
  const name = requireName(called.value("name"), called.path("name"));
  if (name === "") {
    throw new InvalidRequestError(`${called.path("name")} cannot be empty`, called.path("name"));
  }
  called.string("description");
  called.object("parameters");
  const parameters = called.value("parameters");
  const shown = { ...shownPart(tool), function: shownPart(called) };
  return { shown, name, parameters, isStrict: called.boolean("strict") ?? false };
}

/** What is null, or a note that is not for the model, is as good as absent. */
function shownPart(part: Fields): object {
  const said = part.names().filter((name) => !Object.hasOwn(IDLE_TOOL_FIELDS, name));
  return Object.fromEntries(said.map((name) => [name, part.value(name)]));
}

/** "none", "auto", "required", or the one tool that must be called. */
function readChoice(fields: Fields, tools: readonly Tool[]): ToolChoice {
  const choice = fields.value("tool_choice") ?? "auto";
  if (choice === "none" || choice === "auto") return choice;
  if (typeof choice !== "string" && !isObject(choice)) {
    throw wrongType("tool_choice", "a string or an object", choice);
  }
  if (typeof choice === "string" && choice !== "required") {
    throw outOfRange("tool_choice", "none, auto, required or an object with a function", choice);
  }
  requireTools(tools);
  if (choice === "required") return choice;
  const named = fields.within(choice, "tool_choice");
  const type = named.string("type") ?? "function";
  if (type !== "function") throw outOfRange(named.path("type"), '"function"', type);
  const called = named.within(named.value("function"), named.path("function"));
  const name = requireString(called.value("name"), called.path("name"));
  called.end();
  named.end();
  return toolNamed(name, { tools, path: called.path("name") });
}

/** @throws {InvalidRequestError} when there is none. */
export function toolNamed(
  name: string,
  { tools, path }: { readonly tools: readonly Tool[]; readonly path: string },
): Tool {
  const tool = tools.find((one) => one.name === name);
  if (tool !== undefined) return tool;
  throw outOfRange(path, "the name of one of the tools", name);
}

/** @throws {InvalidRequestError} when a call is asked for and there is nothing to call. */
export function requireTools(tools: readonly Tool[]): void {
  if (tools.length > 0) return;
  throw new InvalidRequestError(
    "Cannot use tool_choice: it asks for a call, but the request has no tools",
    "tool_choice",
  );
}

/** How an interface spells tools whose name, description and schema stand beside each other. */
export interface FlatTools {
  /** The one type of them that there is. */
  readonly type: string;
  /** What a tool is that does not say. Default: none of that type. */
  readonly untyped?: string;
  /** Name of the field that holds the schema. */
  readonly schema: string;
  /** Why other types are refused. */
  readonly refusal: string;
}

/** @throws {UnsupportedError} naming a type that is another one. */
export function readFlatTool(tool: Fields, flat: FlatTools): Tool {
  const type = tool.string("type") ?? flat.untyped ?? "";
  if (type !== flat.type) {
    const field = tool.path("type");
    throw new UnsupportedError(`${field} ${JSON.stringify(type.slice(0, 60))}`, flat.refusal, {
      field,
    });
  }
  tool.takeIdle(IDLE_FLAT_TOOL_FIELDS);
  const { schema: schemaField } = flat;
  const name = requireName(tool.value("name"), tool.path("name"));
  if (name === "") {
    throw new InvalidRequestError(`${tool.path("name")} cannot be empty`, tool.path("name"));
  }
  const description = tool.string("description");
  tool.object(schemaField);
  const parameters = tool.value(schemaField);
  const isStrict = tool.boolean("strict") ?? false;
  tool.end();
  const told = Object.entries({ name, description, parameters });
  const called = Object.fromEntries(told.filter(([, value]) => value !== undefined));
  return { shown: { type: "function", function: called }, name, parameters, isStrict };
}

/** The field `tools` as a list that is not too long to be shown to a model. */
export function readToolFields(fields: Fields): readonly Fields[] {
  const tools = readShortList(fields, "tools", MAX_TOOLS) ?? [];
  requireShortJson(tools, fields.path("tools"), MAX_TEMPLATE_UNITS);
  return tools.map((tool, i) => fields.within(tool, fields.path(`tools[${i}]`)));
}
