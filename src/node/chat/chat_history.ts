/**
 * What has been said in a chat: the messages that the model is given, and how they are kept in a file.
 *
 * @module
 */
import { type ChatMessage, type ChatToolCall, textOf } from "../../chat_message.ts";
import { wireMessages } from "../../client/wire_messages.ts";
import type { MessageEvent } from "../../text/message_parser.ts";

/** One message of the model, as it grows. */
export class GrowingMessage {
  #reasoning = "";
  #content = "";
  /** By their numbers, which a server may choose as it likes. */
  readonly #calls = new Map<number, { id: string; name: string; arguments: string }>();

  take(event: MessageEvent): void {
    if (event.type === "content") this.#content += event.text;
    else if (event.type === "reasoning") this.#reasoning += event.text;
    else if (event.type === "call") {
      this.#calls.set(event.index, { id: event.id, name: event.name, arguments: "" });
    } else if (event.type === "arguments") {
      const call = this.#calls.get(event.index);
      if (call !== undefined) call.arguments += event.text;
    }
  }

  /** Whether it says something, beside what it calls. */
  get hasText(): boolean {
    return this.#content.trim() !== "";
  }

  get calls(): readonly ChatToolCall[] {
    return Array.from(this.#calls.values(), ({ id, name, arguments: text }) => ({
      id,
      type: "function",
      function: { name, arguments: text },
    }));
  }

  /** @param calls Those that have been answered: templates want a result for each. */
  message(calls: readonly ChatToolCall[] = this.calls): ChatMessage {
    return {
      role: "assistant",
      content: this.#content,
      ...(this.#reasoning !== "" && { reasoning_content: this.#reasoning }),
      ...(calls.length > 0 && { tool_calls: calls }),
    };
  }
}

/**
 * @param name Of the file: one that ends in .json has the messages as programs take them.
 * @param images Addresses for their places of images, in order.
 */
export function writtenChat(
  name: string,
  messages: readonly ChatMessage[],
  images: readonly string[] = [],
): string {
  if (name.endsWith(".json")) return `${JSON.stringify(wireMessages(messages, images), null, 2)}\n`;
  return `${messages.map(asMarkdown).join("\n\n")}\n`;
}

const HEADINGS: Readonly<Record<string, string>> = {
  system: "System",
  user: "You",
  assistant: "Answer",
  tool: "Result",
};

function asMarkdown({ role, content, reasoning_content, tool_calls = [] }: ChatMessage): string {
  const quoted = reasoning_content?.trim().replace(/^/gm, "> ");
  const calls = tool_calls.map(({ function: called }) => `\`${called.name} ${called.arguments}\``);
  const parts = [`## ${HEADINGS[role] ?? role}`, quoted, textOf(content).trim(), ...calls];
  return parts.filter((part) => part !== undefined && part !== "").join("\n\n");
}
