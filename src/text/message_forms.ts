/**
 * The forms in which one conversation may be handed to a template.
 *
 * Templates disagree about what they are given: some print tool calls only when `content` is null
 * and others fail on null; some paste the arguments' JSON text and others print an object; some
 * print one call a message or none beside content; some know one system message, in front.
 *
 * @module
 */

import { textOf } from "../chat_message.ts";
import { InvalidRequestError } from "../errors.ts";
import type { ChatMessage, ChatToolCall } from "../generation.ts";
import { MAX_JSON_DEPTH, nestsTooDeep } from "../request_limits.ts";
import type { CallIds } from "./families.ts";
import { isRecord } from "./tokenizer_config.ts";

/** How messages with tool calls are written. */
export interface CallForm {
  /** Stands for their missing or empty content. */
  readonly emptyContent: "" | null;
  /** Whether their content goes into a message of its own, in front. */
  readonly contentApart: boolean;
  /** Whether each call gets a message of its own, with its result behind it. */
  readonly oneCallEach: boolean;
  readonly args: "text" | "object";
}

export const PLAIN_FORM: CallForm = {
  emptyContent: "",
  contentApart: false,
  oneCallEach: false,
  args: "text",
};

/**
 * Messages whose contents are texts, but for those with images: templates of models that read none
 * know nothing of parts.
 *
 * @throws {InvalidRequestError} when an image is in a message that is no user's.
 */
export function withPlainTexts(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  return messages.map((message, i) => {
    const { content, role } = message;
    if (content === null || typeof content === "string") return message;
    if (!content.some(({ type }) => type === "image")) {
      return { ...message, content: textOf(content) };
    }
    if (role === "user") return message;
    throw new InvalidRequestError(
      `Cannot read messages[${i}]: only messages of the role user have images`,
      "messages",
    );
  });
}

/** The forms that make a difference for these messages, the most faithful first. */
export function callForms(messages: readonly ChatMessage[]): CallForm[] {
  const calling = messages.filter(hasToolCalls);
  const either = (useful: boolean) => (useful ? [false, true] : [false]);
  const forms: CallForm[] = [];
  for (const oneCallEach of either(calling.some((one) => one.tool_calls!.length > 1))) {
    for (const contentApart of either(calling.some(({ content }) => content))) {
      for (const emptyContent of ["", null] as const) {
        for (const args of ["text", "object"] as const) {
          forms.push({ emptyContent, contentApart, oneCallEach, args });
        }
      }
    }
  }
  return forms;
}

export function hasToolCalls(message: ChatMessage): boolean {
  return (message.tool_calls?.length ?? 0) > 0;
}

/** Writes messages in a form, as plain objects without empty fields: templates ask what is there. */
export function formMessages(
  messages: readonly ChatMessage[],
  form: CallForm,
  reasoningField?: string,
): Record<string, unknown>[] {
  const spread = form.contentApart || form.oneCallEach ? spreadCalls(messages, form) : messages;
  return spread.map((message) => {
    const plain: Record<string, unknown> = {};
    for (const [key, value] of Object.entries(message)) {
      if (value !== undefined && value !== null) plain[key] = value;
    }
    delete plain.tool_calls;
    plain.content = message.content ?? "";
    if (!message.reasoning_content) delete plain.reasoning_content;
    else if (reasoningField !== undefined) plain[reasoningField] = message.reasoning_content;
    if (!hasToolCalls(message)) return plain;

    if (plain.content === "") plain.content = form.emptyContent;
    plain.tool_calls = message.tool_calls!.map((call) => {
      const text = call.function.arguments;
      const given = form.args === "text" ? text : parseArguments(text);
      return { ...call, function: { ...call.function, arguments: given } };
    });
    return plain;
  });
}

function spreadCalls(messages: readonly ChatMessage[], form: CallForm): ChatMessage[] {
  const spread: ChatMessage[] = [];
  for (let i = 0; i < messages.length; i++) {
    let message = messages[i]!;
    if (hasToolCalls(message) && form.contentApart && message.content) {
      spread.push({ role: message.role, content: message.content });
      message = { ...message, content: null };
    }
    if (!form.oneCallEach || (message.tool_calls?.length ?? 0) < 2) {
      spread.push(message);
      continue;
    }
    const results = new CallResults();
    while (messages[i + 1]?.role === "tool") results.add(messages[++i]!);
    const { content, reasoning_content: reasoning, tool_calls: calls = [], ...rest } = message;
    for (const [position, call] of calls.entries()) {
      const first = position === 0;
      spread.push({
        ...rest,
        content: first ? content : null,
        ...(first && reasoning !== undefined && { reasoning_content: reasoning }),
        tool_calls: [call],
      });
      const result = results.take(call.id);
      if (result !== undefined) spread.push(result);
    }
    for (const result of results.left) spread.push(result);
  }
  return spread;
}

/** The results behind a message of several calls, each of which is given out once. */
class CallResults {
  /** Of those that are left, in their order. */
  readonly left = new Set<ChatMessage>();
  /** By the id of their call, in their order. */
  readonly #byId = new Map<string | undefined, Set<ChatMessage>>();

  add(result: ChatMessage): void {
    const id = result.tool_call_id;
    const alike = this.#byId.get(id) ?? new Set();
    this.#byId.set(id, alike.add(result));
    this.left.add(result);
  }

  /** The first one that names the call, else the first one that names none. */
  take(id: string | undefined): ChatMessage | undefined {
    const [named] = this.#byId.get(id) ?? [];
    const [result] = named === undefined ? (this.#byId.get(undefined) ?? []) : [named];
    if (result === undefined) return undefined;
    this.#byId.get(result.tool_call_id)!.delete(result);
    this.left.delete(result);
    return result;
  }
}

function parseArguments(text: string): Readonly<Record<string, unknown>> {
  return text.trim() === "" ? {} : (JSON.parse(text) as Readonly<Record<string, unknown>>);
}

/** @throws {InvalidRequestError} naming the call whose arguments are no JSON object. */
export function checkArguments(messages: readonly ChatMessage[]): void {
  for (const [index, { tool_calls: calls = [] }] of messages.entries()) {
    for (const [position, call] of calls.entries()) {
      const field = `messages[${index}].tool_calls[${position}].function.arguments`;
      if (nestsTooDeep(call.function.arguments)) {
        const problem = `it nests deeper than ${MAX_JSON_DEPTH} levels`;
        throw new InvalidRequestError(`Cannot read ${field}: ${problem}`, field);
      }
      let args: unknown;
      try {
        args = parseArguments(call.function.arguments);
      } catch (cause) {
        throw new InvalidRequestError(`Cannot read ${field}: it is not JSON`, field, { cause });
      }
      if (!isRecord(args)) {
        throw new InvalidRequestError(`Cannot read ${field}: it is not a JSON object`, field);
      }
    }
  }
}

/** What instructs the model, by either name. */
export function isInstruction({ role }: ChatMessage): boolean {
  return role === "system" || role === "developer";
}

/** Makes one system message of those in front. */
export function joinLeadingInstructions(messages: readonly ChatMessage[]): readonly ChatMessage[] {
  const rest = messages.findIndex((message) => !isInstruction(message));
  const count = rest < 0 ? messages.length : rest;
  return count < 2
    ? messages
    : [joinInstructions(messages.slice(0, count)), ...messages.slice(count)];
}

function joinInstructions(instructions: readonly ChatMessage[]): ChatMessage {
  const content = instructions.map((message) => message.content ?? "").join("\n\n");
  return { role: "system", content };
}

/** Where instructions may stand, the most faithful first: as given, as `system`, joined in front. */
export function instructionForms(messages: readonly ChatMessage[]): (readonly ChatMessage[])[] {
  return [
    messages,
    messages.map((message) => (isInstruction(message) ? { ...message, role: "system" } : message)),
    [
      joinInstructions(messages.filter(isInstruction)),
      ...messages.filter((message) => !isInstruction(message)),
    ],
  ];
}

/** Rewrites the ids of calls and results that are not of the kind; calls without one get one. */
export function rewriteCallIds(messages: readonly ChatMessage[], kind: CallIds): ChatMessage[] {
  const rewritten = new Map<string, string>();
  const used = new Set<string>();
  let count = 0;
  const rewrite = (call: ChatToolCall): ChatToolCall => {
    let id = callId(call, kind, count);
    // Two ids may end alike.
    if (used.has(id)) id = callId({ ...call, id: "" }, kind, count);
    used.add(id);
    count++;
    if (call.id !== undefined) rewritten.set(call.id, id);
    return { ...call, id };
  };
  return messages.map((message) => {
    if (hasToolCalls(message)) {
      return { ...message, tool_calls: message.tool_calls!.map(rewrite) };
    }
    const id = message.tool_call_id;
    if (id === undefined) return message;
    return { ...message, tool_call_id: rewritten.get(id) ?? id };
  });
}

function callId({ id, function: called }: ChatToolCall, kind: CallIds, count: number): string {
  switch (kind) {
    case "function-and-number":
      return id !== undefined && /^functions\..+:\d+$/.test(id)
        ? id
        : `functions.${called.name}:${count}`;
    case "nine-characters": {
      const end = (id ?? "").replace(/[^A-Za-z0-9]/g, "").slice(-9);
      return end.length === 9 ? end : String(count).padStart(9, "0");
    }
    default:
      return kind satisfies never;
  }
}
