/**
 * `tools` of a request and the fields about them.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../errors.ts";
import { Fields, isObject, outOfRange, requireString, wrongType } from "../http/fields.ts";

export interface RequestTools {
  /** As the client wrote them, for the chat template; absent when the model is to see none. */
  readonly shown: readonly unknown[] | undefined;
  /** Names of those that may be called. */
  readonly names: readonly string[];
}

const NOT_YET = "it is not supported yet";

/**
 * The fields `tools`, `tool_choice` and `parallel_tool_calls`. With the choice "none" the model does
 * not get to know the tools.
 *
 * @throws {UnsupportedError} when calls are to be enforced.
 */
export function readTools(fields: Fields): RequestTools {
  const tools = fields.list("tools") ?? [];
  const names = readToolNames(fields);
  const choice = readChoice(fields, names);
  const parallel = fields.boolean("parallel_tool_calls") ?? true;
  const isShown = tools.length > 0 && choice === "auto";
  if (isShown && !parallel) throw new UnsupportedError("parallel_tool_calls: false", NOT_YET);
  return isShown ? { shown: tools, names } : { shown: undefined, names: [] };
}

/** Names of the functions in the field `tools`, in its order; none when it is absent. */
export function readToolNames(fields: Fields): readonly string[] {
  const tools = fields.list("tools") ?? [];
  return tools.map((tool, i) => readToolName(new Fields(tool, fields.path(`tools[${i}]`))));
}

/** Fields that are not known here are for the chat template, which is given the tool as it is. */
function readToolName(tool: Fields): string {
  const type = tool.string("type") ?? "function";
  if (type !== "function") throw outOfRange(tool.path("type"), '"function"', type);
  const called = new Fields(tool.value("function"), tool.path("function"));
  const name = requireString(called.value("name"), called.path("name"));
  if (name === "") {
    throw new InvalidRequestError(`${called.path("name")} cannot be empty`, called.path("name"));
  }
  called.string("description");
  called.object("parameters");
  if (called.boolean("strict")) throw new UnsupportedError(called.path("strict"), NOT_YET);
  return name;
}

function readChoice(fields: Fields, names: readonly string[]): "none" | "auto" {
  const choice = fields.value("tool_choice") ?? "auto";
  if (choice === "none" || choice === "auto") return choice;
  if (typeof choice !== "string" && !isObject(choice)) {
    throw wrongType("tool_choice", "a string or an object", choice);
  }
  if (typeof choice === "string" && choice !== "required") {
    throw outOfRange("tool_choice", "none, auto, required or an object with a function", choice);
  }
  if (names.length === 0) {
    throw new InvalidRequestError(
      "tool_choice asks for a call, but there are no tools",
      "tool_choice",
    );
  }
  const shown = choice === "required" ? '"required"' : "a function by name";
  throw new UnsupportedError(`tool_choice: ${shown}`, NOT_YET);
}
