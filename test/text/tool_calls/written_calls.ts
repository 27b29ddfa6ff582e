/**
 * Writes tool calls in each form, as models do.
 *
 * @module
 */
import type { ToolCallParserName } from "../../../src/text/tool_calls/formats.ts";

export interface Call {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
}

/** `json.dumps`: a space behind commas and colons. */
export function dumps(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(dumps).join(", ")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, item]) => `${JSON.stringify(name)}: ${dumps(item)}`,
  );
  return `{${members.join(", ")}}`;
}

/** `repr`, with double quotes. */
function repr(value: unknown): string {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(repr).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const members = Object.entries(value).map(
    ([name, item]) => `${JSON.stringify(name)}: ${repr(item)}`,
  );
  return `{${members.join(", ")}}`;
}

const WRITERS: Readonly<Record<ToolCallParserName, (calls: readonly Call[]) => string>> = {
  deepseekv3: (calls) => {
    const written = calls.map(
      ({ name, args }) =>
        `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n${dumps(args)}\n\`\`\`<｜tool▁call▁end｜>`,
    );
    return `<｜tool▁calls▁begin｜>${written.join("\n")}<｜tool▁calls▁end｜>`;
  },
  deepseekv31: (calls) => {
    const written = calls.map(
      ({ name, args }) =>
        `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${dumps(args)}<｜tool▁call▁end｜>`,
    );
    return `<｜tool▁calls▁begin｜>${written.join("")}<｜tool▁calls▁end｜>`;
  },
  qwen25: tagged,
  hermes: tagged,
  llama3: (calls) => calls.map(({ name, args }) => dumps({ name, parameters: args })).join("; "),
  mistral: (calls) =>
    `[TOOL_CALLS] ${dumps(calls.map(({ name, args }) => ({ name, arguments: args })))}`,
  kimi_k2: (calls) => {
    const written = calls.map(
      ({ name, args }, i) =>
        `<|tool_call_begin|>functions.${name}:${i}<|tool_call_argument_begin|>${dumps(args)}<|tool_call_end|>`,
    );
    return `<|tool_calls_section_begin|>${written.join("")}<|tool_calls_section_end|>`;
  },
  pythonic: (calls) => {
    const written = calls.map(({ name, args }) => {
      const values = Object.entries(args).map(([key, value]) => `${key}=${repr(value)}`);
      return `${name}(${values.join(", ")})`;
    });
    return `[${written.join(", ")}]`;
  },
  "gpt-oss": (calls) =>
    calls
      .map(
        ({ name, args }, i) =>
          `${i === 0 ? "" : "<|start|>assistant"}<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>${dumps(args)}<|call|>`,
      )
      .join(""),
};

function tagged(calls: readonly Call[]): string {
  return calls
    .map(({ name, args }) => `<tool_call>\n${dumps({ name, arguments: args })}\n</tool_call>`)
    .join("\n");
}

export function writeCalls(format: ToolCallParserName, calls: readonly Call[]): string {
  return WRITERS[format](calls);
}
