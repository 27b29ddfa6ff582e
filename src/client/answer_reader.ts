/**
 * Events of a streamed chat -> reasoning, content and tool calls, and what they took.
 *
 * @module
 */
import {
  createMessageParser,
  type MessageEvent,
  type MessageParser,
} from "../text/message_parser.ts";
import type { ChatPiece, ChatRequest, ChatUsage, ServedModel } from "./chat_exchange.ts";
import { errorMessage, ServerError } from "./server_error.ts";

interface WireEvent {
  readonly id?: unknown;
  readonly choices?: readonly WireChoice[];
  readonly usage?: WireUsage | null;
  readonly error?: unknown;
}

interface WireChoice {
  readonly delta?: WireDelta;
  readonly finish_reason?: unknown;
}

interface WireDelta {
  readonly content?: unknown;
  readonly reasoning_content?: unknown;
  readonly tool_calls?: readonly WireCall[] | null;
}

interface WireCall {
  readonly index?: unknown;
  readonly id?: unknown;
  readonly function?: { readonly name?: unknown; readonly arguments?: unknown };
}

interface WireUsage {
  readonly prompt_tokens?: unknown;
  readonly completion_tokens?: unknown;
  readonly prompt_tokens_details?: { readonly cached_tokens?: unknown } | null;
}

export class AnswerReader {
  readonly #parser: MessageParser;
  /** Whether usage without cached tokens says that there were none. */
  readonly #tellsCached: boolean;
  #requestId = "";
  #finish: string | null = null;
  #usage: ChatUsage | undefined;

  constructor({ unread, isOurs }: ServedModel, { tools = [], thinking }: ChatRequest) {
    this.#tellsCached = isOurs;
    this.#parser = createMessageParser({
      ...unread,
      tools: tools.map(nameOf),
      wantsThinking: thinking === true,
    });
  }

  /** @throws {ServerError} for an event that tells of an error, or that is none. */
  take(payload: string): ChatPiece {
    const event = readEvent(payload);
    if (typeof event.id === "string") this.#requestId = event.id;
    const events: MessageEvent[] = [];
    const [choice] = event.choices ?? [];
    if (choice?.delta) this.#takeDelta(choice.delta, events);
    if (typeof choice?.finish_reason === "string") this.#finish = choice.finish_reason;
    const usage = event.usage ? this.#readUsage(event.usage) : undefined;
    this.#usage = usage ?? this.#usage;
    return { requestId: this.#requestId, events, usage, finish: null };
  }

  /** What was held back, and why the answer is over. */
  end(): ChatPiece {
    const events = this.#parser.end();
    if (this.#finish === null)
      throw new ServerError("Cannot read the answer: it does not say why it ends");
    return { requestId: this.#requestId, events, usage: this.#usage, finish: this.#finish };
  }

  #takeDelta({ content, reasoning_content, tool_calls }: WireDelta, events: MessageEvent[]): void {
    if (typeof reasoning_content === "string" && reasoning_content !== "") {
      events.push({ type: "reasoning", text: reasoning_content });
    }
    if (typeof content === "string") for (const one of this.#parser.push(content)) events.push(one);
    for (const call of tool_calls ?? []) {
      const index = typeof call.index === "number" ? call.index : 0;
      const { name, arguments: text } = call.function ?? {};
      // The name comes once, with the id; arguments come in pieces behind it.
      if (typeof name === "string" && name !== "") {
        events.push({ type: "call", index, id: String(call.id ?? `call_${index}`), name });
      }
      if (typeof text === "string" && text !== "") events.push({ type: "arguments", index, text });
    }
  }

  #readUsage({ prompt_tokens, completion_tokens, prompt_tokens_details }: WireUsage): ChatUsage {
    const cached = prompt_tokens_details?.cached_tokens;
    return {
      promptTokens: Number(prompt_tokens ?? 0),
      completionTokens: Number(completion_tokens ?? 0),
      cachedTokens: typeof cached === "number" ? cached : this.#tellsCached ? 0 : undefined,
    };
  }
}

function readEvent(payload: string): WireEvent {
  let event: unknown;
  try {
    event = JSON.parse(payload);
  } catch (cause) {
    throw new ServerError("Cannot read the answer: an event is no JSON", undefined, { cause });
  }
  if (typeof event !== "object" || event === null) {
    throw new ServerError("Cannot read the answer: an event is no object");
  }
  const { error } = event as WireEvent;
  if (error)
    throw new ServerError(
      errorMessage(event) ?? "Cannot read the answer: the server tells of an error",
    );
  return event;
}

function nameOf(tool: object): string {
  const { function: called } = tool as { readonly function?: { readonly name?: unknown } };
  return String(called?.name ?? "");
}
