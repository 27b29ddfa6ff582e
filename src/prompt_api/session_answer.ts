/**
 * One answer of a session, with the calls of its tools.
 *
 * @module
 */
import type { ChatCompletionCallDelta } from "../server/openai_chat.ts";
import type { ReadPrompt, WireMessage } from "./prompt_messages.ts";
import type { LanguageModelTool, SessionState } from "./session_options.ts";

export interface AnswerOptions {
  readonly history: readonly WireMessage[];
  readonly responseConstraint?: object;
  readonly omitResponseConstraintInput?: boolean;
  readonly signal: AbortSignal;
  readonly onText: (text: string) => void;
}

export interface SessionAnswer {
  readonly text: string;
  /** The turn: its prompt, the calls and their results, the answer. */
  readonly said: readonly WireMessage[];
  /** Of the whole conversation, where the engine told. */
  readonly tokens: number | undefined;
}

/** Times that tools are called before an answer has to come. */
const TOOL_ROUNDS = 16;

export async function answer(
  state: SessionState,
  { messages, prefix }: ReadPrompt,
  options: AnswerOptions,
): Promise<SessionAnswer> {
  const fields = { ...state.sampling, ...constraintFields(options) };
  const said: WireMessage[] = [...messages];
  let text = "";
  for (let round = 0; ; round++) {
    const continues = prefix !== undefined && round === 0;
    const piece = await oneAnswer(state, {
      ...options,
      fields: {
        ...fields,
        messages: [...options.history, ...said],
        ...(continues && { continue_final_message: true }),
        ...toolFields(state.tools, round),
      },
    });
    text += piece.text;
    if (continues) said.pop();
    const content = (continues ? prefix : "") + piece.text;
    if (piece.calls.length === 0) {
      said.push({ role: "assistant", content });
      return { text, said, tokens: piece.tokens };
    }
    const calls = piece.calls.map((call) => ({ ...call, type: "function" }));
    said.push(Object.assign({ role: "assistant", content }, { tool_calls: calls }));
    for (const call of piece.calls) said.push(await calledTool(state.tools, call));
    options.signal.throwIfAborted();
  }
}

function toolFields(tools: readonly LanguageModelTool[], round: number): object {
  if (tools.length === 0) return {};
  return {
    tools: tools.map(({ name, description, inputSchema: parameters }) => ({
      type: "function",
      function: { name, description, parameters },
    })),
    tool_choice: round < TOOL_ROUNDS ? "auto" : "none",
  };
}

/** Flags of an expression that change which texts it matches whole; `u` reads it as wisp does. */
const OTHER_MATCHES = /[imsv]/;

/**
 * @throws {TypeError} where there is nothing to leave out.
 * @throws {DOMException} named NotSupportedError for a flag that would be ignored.
 */
function constraintFields(options: AnswerOptions): object {
  const { responseConstraint: schema, omitResponseConstraintInput } = options;
  if (schema === undefined && omitResponseConstraintInput === true) {
    throw new TypeError("Cannot prompt: omitResponseConstraintInput needs a responseConstraint");
  }
  if (schema === undefined) return {};
  if (schema instanceof RegExp) {
    const flag = OTHER_MATCHES.exec(schema.flags)?.[0];
    if (flag === undefined) return { regex: schema.source };
    const message = `Cannot hold the answer to ${schema}: the flag ${flag} is not supported`;
    throw new DOMException(message, "NotSupportedError");
  }
  const json_schema = { name: "answer", schema, strict: true };
  return { response_format: { type: "json_schema", json_schema } };
}

interface Call {
  readonly id: string;
  readonly function: { readonly name: string; arguments: string };
}

interface Piece {
  readonly text: string;
  readonly calls: readonly Call[];
  readonly tokens: number | undefined;
}

type Asked = AnswerOptions & { readonly fields: { readonly messages: readonly object[] } };

async function oneAnswer({ engine }: SessionState, asked: Asked): Promise<Piece> {
  const { fields, signal, onText } = asked;
  const calls: Call[] = [];
  let text = "";
  let tokens: number | undefined;
  const body = { ...fields, stream: true as const, stream_options: { include_usage: true } };
  try {
    for await (const { choices, usage } of await engine.chat.completions.create(body, { signal })) {
      tokens = usage?.total_tokens ?? tokens;
      const { content, tool_calls: pieces = [] } = choices[0]?.delta ?? {};
      if (content) {
        text += content;
        onText(content);
      }
      for (const piece of pieces) addCall(calls, piece);
    }
  } catch (error) {
    signal.throwIfAborted();
    throw asDomError(error);
  }
  return { text, calls, tokens };
}

function addCall(
  calls: Call[],
  { id, function: { name, arguments: text } }: ChatCompletionCallDelta,
) {
  if (id !== undefined && name !== undefined) {
    calls.push({ id, function: { name, arguments: text } });
  } else calls.at(-1)!.function.arguments += text;
}

/** What the tool says, or that it failed: the model may try something else. */
async function calledTool(
  tools: readonly LanguageModelTool[],
  { id, function: { name, arguments: text } }: Call,
): Promise<WireMessage> {
  const tool = tools.find((one) => one.name === name);
  let content: string;
  try {
    content =
      tool === undefined
        ? `Error: there is no tool "${name}"`
        : String(await tool.execute(JSON.parse(text)));
  } catch (error) {
    content = `Error: ${error instanceof Error ? error.message : String(error)}`;
  }
  return Object.assign({ role: "tool", content }, { tool_call_id: id });
}

/** Constraints and parts that a model refuses; every other failure is one of the operation. */
function asDomError(error: unknown): Error {
  const {
    status,
    param = "",
    message,
  } = error as Error & {
    readonly status?: number;
    readonly param?: string;
  };
  if (status === 400 && /^(response_format|regex)/.test(param)) {
    return Object.assign(new DOMException(message, "NotSupportedError"), { cause: error });
  }
  return Object.assign(new DOMException(message, "OperationError"), { cause: error });
}
