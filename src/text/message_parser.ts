/**
 * An assistant's answer as it grows -> reasoning, content and tool calls.
 *
 * Reasoning is taken off first, and what remains is looked through for calls: what a model only
 * thinks about calling is not called.
 *
 * @module
 */

import type { Thinking } from "../constraint.ts";
import { InvalidRequestError } from "../errors.ts";
import { HARMONY_MARKS, HARMONY_THINKING, HarmonyParser } from "./harmony.ts";
import { type ReasoningParserName, THINK_FORMATS } from "./reasoning/formats.ts";
import {
  THINK_BEGIN,
  THINK_END,
  type ThinkingEvent,
  ThinkTagParser,
} from "./reasoning/think_tags.ts";
import { CALL_FORMATS, type ToolCallParserName } from "./tool_calls/formats.ts";
import { type ToolCallEvent, ToolCallParser } from "./tool_calls/tool_call_parser.ts";

export type MessageEvent = ToolCallEvent | { readonly type: "reasoning"; readonly text: string };

/** Parses one answer. What it tells does not depend on where the text is cut into pieces. */
export interface MessageParser {
  /** Whether the answer so far ends within reasoning, be that told apart or not. */
  readonly isReasoning: boolean;
  /** Takes more of the answer; text that may be part of a mark is held back. */
  push(text: string): readonly MessageEvent[];
  /** The answer is over: what was held back is told. */
  end(): readonly MessageEvent[];
}

export interface MessageParserOptions {
  /** How the model writes calls. Default: what it writes is content. */
  readonly toolCalls?: ToolCallParserName | undefined;
  /** Names of the request's functions. Without any there are no calls. */
  readonly tools?: readonly string[] | undefined;
  /** How the model marks its thinking. Default: what it thinks is content. */
  readonly reasoning?: ReasoningParserName | undefined;
  /** Tells reasoning apart from content; else it stays content, with its tags. Default true. */
  readonly separatesReasoning?: boolean | undefined;
  /** Whether the request asks the chat template for thinking. Default false. */
  readonly wantsThinking?: boolean | undefined;
  /** Tells reasoning as it comes; else all of it at once when it is over. Default true. */
  readonly streamsReasoning?: boolean | undefined;
  /** What the prompt has of the answer already, when the model only goes on with it. */
  readonly continued?: string | undefined;
  /** Makes the id of a call. Default "call_" and 24 random hexadecimal digits. */
  readonly newId?: (() => string) | undefined;
}

/**
 * The parser for an answer to such a request.
 *
 * @throws {InvalidRequestError} when the two forms are of different kinds of models.
 */
export function createMessageParser(options: MessageParserOptions): MessageParser {
  requireOneKind(options);
  const parser = createParser(options);
  return (options.streamsReasoning ?? true) ? parser : new ReasoningAtOnce(parser);
}

/**
 * The messages of gpt-oss hold reasoning and calls, so that who reads one of them reads both.
 *
 * @throws {InvalidRequestError} when only one of the two forms is that of gpt-oss.
 */
export function requireOneKind({ toolCalls, reasoning }: MessageParserOptions): void {
  if (toolCalls === undefined || reasoning === undefined) return;
  if ((toolCalls === "gpt-oss") === (reasoning === "gpt-oss")) return;
  throw new InvalidRequestError(
    `Cannot parse tool calls as ${toolCalls} and reasoning as ${reasoning}: gpt-oss goes with gpt-oss only`,
  );
}

function createParser(options: MessageParserOptions): MessageParser {
  const { toolCalls, tools = [], reasoning, separatesReasoning = true, newId } = options;
  const calls = { tools, ...(newId !== undefined && { newId }) };
  const callFormat = tools.length === 0 ? undefined : toolCalls;
  if (callFormat === "gpt-oss" || (separatesReasoning && reasoning === "gpt-oss")) {
    return new HarmonyParser({
      ...calls,
      tools: callFormat === undefined ? [] : tools,
      separatesReasoning: separatesReasoning && reasoning === "gpt-oss",
    });
  }
  const thinking =
    reasoning === undefined || reasoning === "gpt-oss"
      ? undefined
      : new ThinkTagParser({
          isOpen: isThinkingOpen(reasoning, options),
          keepTags: !separatesReasoning,
        });
  const calling =
    callFormat === undefined ? undefined : new ToolCallParser(CALL_FORMATS[callFormat], calls);
  return new TaggedParser(thinking, calling, separatesReasoning);
}

function isThinkingOpen(
  format: keyof typeof THINK_FORMATS,
  { wantsThinking = false, continued }: MessageParserOptions,
): boolean {
  return continued === undefined
    ? THINK_FORMATS[format](wantsThinking)
    : continued.lastIndexOf(THINK_BEGIN) > continued.lastIndexOf(THINK_END);
}

/** How thoughts come before an answer to such a request; absent where the parser knows of none. */
export function thinkingOf(options: MessageParserOptions): Thinking | undefined {
  const { reasoning } = options;
  if (reasoning === undefined) return undefined;
  if (reasoning === "gpt-oss") return HARMONY_THINKING;
  return { begin: THINK_BEGIN, end: THINK_END, isOpen: isThinkingOpen(reasoning, options) };
}

/**
 * Special tokens that the text must show for an answer to be parsed, whatever `skipSpecialTokens`
 * says.
 */
export function marksOf(options: MessageParserOptions): readonly string[] {
  const { toolCalls, tools = [], reasoning } = options;
  const isCalling = toolCalls !== undefined && tools.length > 0;
  if (reasoning === "gpt-oss" || (isCalling && toolCalls === "gpt-oss")) return HARMONY_MARKS;
  const callMarks = isCalling ? CALL_FORMATS[toolCalls as keyof typeof CALL_FORMATS].marks : [];
  return reasoning === undefined ? callMarks : [THINK_BEGIN, THINK_END, ...callMarks];
}

/** Tags around the thinking, marks around the calls: two parsers, one behind the other. */
class TaggedParser implements MessageParser {
  readonly #thinking: ThinkTagParser | undefined;
  readonly #calling: ToolCallParser | undefined;
  readonly #separatesReasoning: boolean;

  constructor(
    thinking: ThinkTagParser | undefined,
    calling: ToolCallParser | undefined,
    separatesReasoning: boolean,
  ) {
    this.#thinking = thinking;
    this.#calling = calling;
    this.#separatesReasoning = separatesReasoning;
  }

  get isReasoning(): boolean {
    return this.#thinking?.isThinking ?? false;
  }

  push(text: string): readonly MessageEvent[] {
    return this.#thinking === undefined
      ? this.#content(text)
      : this.#thinking.push(text).flatMap((event) => this.#sort(event));
  }

  end(): readonly MessageEvent[] {
    const last = this.#thinking?.end().flatMap((event) => this.#sort(event)) ?? [];
    return [...last, ...(this.#calling?.end() ?? [])];
  }

  #sort({ type, text }: ThinkingEvent): readonly MessageEvent[] {
    if (type === "content") return this.#content(text);
    return [{ type: this.#separatesReasoning ? "reasoning" : "content", text }];
  }

  #content(text: string): readonly MessageEvent[] {
    if (this.#calling !== undefined) return this.#calling.push(text);
    return text === "" ? [] : [{ type: "content", text }];
  }
}

/** Holds reasoning back until something else comes. */
class ReasoningAtOnce implements MessageParser {
  readonly #parser: MessageParser;
  #reasoning = "";

  constructor(parser: MessageParser) {
    this.#parser = parser;
  }

  get isReasoning(): boolean {
    return this.#parser.isReasoning;
  }

  push(text: string): readonly MessageEvent[] {
    return this.#parser.push(text).flatMap((event) => this.#hold(event));
  }

  end(): readonly MessageEvent[] {
    const last = this.#parser.end().flatMap((event) => this.#hold(event));
    return [...last, ...this.#release()];
  }

  #hold(event: MessageEvent): readonly MessageEvent[] {
    if (event.type !== "reasoning") return [...this.#release(), event];
    this.#reasoning += event.text;
    return [];
  }

  #release(): readonly MessageEvent[] {
    const text = this.#reasoning;
    this.#reasoning = "";
    return text === "" ? [] : [{ type: "reasoning", text }];
  }
}
