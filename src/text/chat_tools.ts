/**
 * Tools of a chat request, with the optional fields filled in that some templates take for granted.
 *
 * @module
 */

import { isRecord } from "./tokenizer_config.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Fills in descriptions and parameters; what is there stays, in its order. */
export function completeTool(tool: unknown): unknown {
  if (!isRecord(tool) || !isRecord(tool.function)) return tool;
  const { parameters } = tool.function;
  return {
    ...tool,
    function: {
      ...withDescription(tool.function),
      parameters: completeParameters(isRecord(parameters) ? parameters : {}),
    },
  };
}

function completeParameters(parameters: Fields): Fields {
  const { properties } = parameters;
  const completed: [string, unknown][] = isRecord(properties)
    ? Object.entries(properties).map(([name, schema]) => [
        name,
        isRecord(schema) ? withDescription(schema) : schema,
      ])
    : [];
  return { type: "object", ...parameters, properties: Object.fromEntries(completed) };
}

function withDescription(fields: Fields): Fields {
  return { ...fields, description: fields.description ?? "" };
}
