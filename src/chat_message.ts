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

/**
 * How much of an image a model is to see: "low" is the whole of it as one tile, whatever its size. The
 * others are what its processor does. Default "auto".
 */
export type ImageDetail = "low" | "high" | "auto";

/** A piece of what a message says: a text, or the place of the request's next image. */
export type MessagePart =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image"; readonly detail?: ImageDetail };

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

/** The details of a conversation's images, in order. */
export function detailsOf(messages: readonly ChatMessage[]): readonly (ImageDetail | undefined)[] {
  return messages.flatMap(({ content }) =>
    content === null || typeof content === "string"
      ? []
      : content.flatMap((part) => (part.type === "image" ? [part.detail] : [])),
  );
}

/** A content as one text: its parts are joined with one space, and images have no text. */
export function textOf(content: MessageContent | null): string {
  return textsOf(content).join(" ");
}
