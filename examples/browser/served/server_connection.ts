/**
 * Requests to the server that the page came from, with the key that the visitor gave.
 *
 * The key is kept for as long as the tab is open, and never beside the chats.
 *
 * @module
 */
import { ChatClient } from "../../../src/client/chat_client.ts";

const KEPT_AS = "wisp.key";

export class ServerConnection {
  readonly client = new ChatClient((path, init) => this.send(path, init));
  #key = keptKey();

  get hasKey(): boolean {
    return this.#key !== undefined;
  }

  useKey(key: string): void {
    this.#key = key;
    try {
      sessionStorage.setItem(KEPT_AS, key);
    } catch {
      // Storage is switched off: the key lasts until the page is left.
    }
  }

  /** Below the page's own folder, which a proxy may have moved. */
  send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.#key !== undefined) headers.set("authorization", `Bearer ${this.#key}`);
    return fetch(new URL(path.slice(1), document.baseURI), { ...init, headers });
  }
}

function keptKey(): string | undefined {
  try {
    return sessionStorage.getItem(KEPT_AS) ?? undefined;
  } catch {
    return undefined;
  }
}
