/**
 * The visitor's chats, each under a key of its own in the browser's storage.
 *
 * @module
 */
import { forget, load, save, saved } from "../app/saved.ts";
import type { AssistantTurn, Chat } from "./conversation.ts";

const GROUP = "chat.";

/** All chats, the one that was changed last in front. */
export function loadChats(): Chat[] {
  const chats = saved(GROUP)
    .map((name) => load(name))
    .filter(isChat);
  for (const { turns } of chats) {
    for (const turn of turns) if (turn.role === "assistant") settle(turn);
  }
  return chats.sort((a, b) => b.changedAt - a.changedAt);
}

/** @returns Whether the browser keeps it. */
export function saveChat(chat: Chat): boolean {
  chat.changedAt = Date.now();
  return save(GROUP + chat.id, chat);
}

export function deleteChat({ id }: Chat): void {
  forget(GROUP + id);
}

/** An answer that was running when the page was left has ended there. */
function settle(turn: AssistantTurn): void {
  if (turn.end === "running") turn.end = "stopped";
}

function isChat(value: unknown): value is Chat {
  if (typeof value !== "object" || value === null) return false;
  const { id, turns } = value as Partial<Chat>;
  return typeof id === "string" && Array.isArray(turns);
}
