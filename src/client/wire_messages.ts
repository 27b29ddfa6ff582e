/**
 * Messages as a server's body has them.
 *
 * @module
 */
import type { ChatMessage } from "../chat_message.ts";

/** @param images Addresses for the places of images in `messages`, in order. */
export function wireMessages(
  messages: readonly ChatMessage[],
  images: readonly string[] = [],
): readonly object[] {
  let taken = 0;
  return messages.map(({ content, ...message }) => {
    if (content === null || typeof content === "string") return { ...message, content };
    const parts = content.map((part) => {
      if (part.type === "text") return part;
      const { detail } = part;
      const url = images[taken++]!;
      return { type: "image_url", image_url: detail === undefined ? { url } : { url, detail } };
    });
    return { ...message, content: parts };
  });
}
