/**
 * The messages of a conversation: plain data.
 *
 * @module
 */

export interface ChatToolCall {
  readonly id?: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

/** A piece of what a message says: a text, or the place of the request's next image. */
export type MessagePart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image" };

export type MessageContent = string | readonly MessagePart[];

export interface ChatMessage {
  readonly role: string;
  /** Messages of the role "user" alone have places of images. */
  readonly content: MessageContent | null;
  /** What an assistant thought before it answered, for templates that show it again. */
  readonly reasoning_content?: string;
  readonly name?: string;
  readonly tool_calls?: readonly ChatToolCall[];
  readonly tool_call_id?: string;
}

/** The texts of a content. */
export function textsOf(content: MessageContent | null): readonly string[] {
  if (content === null) return [];
  if (typeof content === "string") return [content];
  return content.flatMap((part) => (part.type === "text" ? [part.text] : []));
}

/** A content as one text: its parts are joined with one space, and images have no text. */
export function textOf(content: MessageContent | null): string {
  return textsOf(content).join(" ");
}
