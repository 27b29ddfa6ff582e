/**
 * An assistant's message on the wire, from what its parser tells.
 *
 * @module
 */
import type { FinishReason, GenerationChunk } from "../../generation.ts";
import type { MessageEvent } from "../../text/message_parser.ts";

export type FinishedChunk = GenerationChunk & { readonly finish: FinishReason };

export function requireFinished(last: GenerationChunk | null): FinishedChunk {
  if (last?.finish) return last as FinishedChunk;
  throw new Error("Cannot answer: the engine ended a generation without a reason");
}

/** A message that is sent as a whole. */
export class ChatMessageBuilder {
  #content = "";
  #reasoning = "";
  readonly #calls: { readonly id: string; readonly name: string; text: string }[] = [];

  get hasCalls(): boolean {
    return this.#calls.length > 0;
  }

  append(events: readonly MessageEvent[]): void {
    for (const event of events) this.#append(event);
  }

  #append(event: MessageEvent): void {
    switch (event.type) {
      case "content":
        this.#content += event.text;
        break;
      case "reasoning":
        this.#reasoning += event.text;
        break;
      case "call":
        this.#calls.push({ id: event.id, name: event.name, text: "" });
        break;
      case "arguments":
        this.#calls[event.index]!.text += event.text;
        break;
      case "callEnd":
        break;
      default:
        event satisfies never;
    }
  }

  wire(): object {
    const calls = this.#calls.map(({ id, name, text }, index) => ({
      id,
      index,
      type: "function",
      function: { name, arguments: text },
    }));
    return {
      role: "assistant",
      content: this.#content === "" ? null : this.#content,
      reasoning_content: this.#reasoning === "" ? null : this.#reasoning,
      tool_calls: calls.length === 0 ? null : calls,
    };
  }
}

/** `delta` of a streamed message. */
export interface ChatDelta {
  readonly role: string | null;
  readonly content: string | null;
  readonly reasoning_content: string | null;
  readonly tool_calls: readonly object[] | null;
}

export const EMPTY_DELTA: ChatDelta = {
  role: null,
  content: null,
  reasoning_content: null,
  tool_calls: null,
};

/** What a client is told of an event: a call's name first, then its arguments as they come. */
export function wireDelta(event: MessageEvent): ChatDelta | undefined {
  switch (event.type) {
    case "content":
      return { ...EMPTY_DELTA, content: event.text };
    case "reasoning":
      return { ...EMPTY_DELTA, reasoning_content: event.text };
    case "call": {
      const { id, index, name } = event;
      return callDelta({ id, index, type: "function", function: { name, arguments: "" } });
    }
    case "arguments": {
      const { index, text } = event;
      const piece = { name: null, arguments: text };
      return callDelta({ id: null, index, type: "function", function: piece });
    }
    case "callEnd":
      return undefined;
    default:
      return event satisfies never;
  }
}

function callDelta(call: object): ChatDelta {
  return { ...EMPTY_DELTA, tool_calls: [call] };
}

/** Why the model stopped; to call a tool is a reason of its own. */
export function wireFinishReason(finish: FinishReason, hasCalls: boolean): string {
  return finish.type === "stop" && hasCalls ? "tool_calls" : finish.type;
}

export function wireMatchedStop(finish: FinishReason): number | string | null {
  return finish.type === "stop" ? finish.matched : null;
}
