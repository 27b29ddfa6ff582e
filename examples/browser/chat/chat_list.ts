/**
 * The list of chats at the side.
 *
 * @module
 */
import { element } from "../app/dom.ts";
import { icon } from "../app/icons.ts";
import { type Chat, titleOf } from "./conversation.ts";

export interface ChatListActions {
  readonly open: (chat: Chat) => void;
  readonly remove: (chat: Chat) => void;
}

/** Shows them in this order; `current` is the one on the page. */
export function showChatList(
  list: HTMLElement,
  { chats, current }: { readonly chats: readonly Chat[]; readonly current: Chat },
  { open, remove }: ChatListActions,
): void {
  const rows = chats.map((chat) => {
    const title = titleOf(chat);
    return element(
      "li",
      {},
      element(
        "button",
        {
          type: "button",
          class: "chat",
          "aria-current": chat === current ? "true" : undefined,
          onclick: () => open(chat),
        },
        title,
      ),
      element(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `Delete the chat "${title}"`,
          title: "Delete",
          onclick: () => remove(chat),
        },
        icon("remove"),
      ),
    );
  });
  list.replaceChildren(...rows);
}
