/**
 * The server's page as a whole: it asks for the key where there is one, then chats.
 *
 * @module
 */
import { ServerError } from "../../../src/client/server_error.ts";
import { announce } from "../app/announce.ts";
import { byId, setText } from "../app/dom.ts";
import { Drawers } from "../app/drawers.ts";
import { startTheme } from "../app/theme.ts";
import type { AnswerSource } from "../chat/answer_source.ts";
import { ChatView } from "../chat/chat_view.ts";
import { loadSettings } from "../chat/settings.ts";
import type { Panel } from "../panel/panel_source.ts";
import { askForKey, showFailure } from "./connect_view.ts";
import { explainServerError } from "./explain_server_error.ts";
import { ServerConnection } from "./server_connection.ts";
import { mountServerPanel } from "./server_panel.ts";
import { serverSource } from "./server_source.ts";

export class ServedApp {
  readonly #connection = new ServerConnection();
  readonly #chat: ChatView;
  #panel: Panel | undefined;
  #isReady = false;

  constructor() {
    startTheme(byId("theme"));
    const drawers = new Drawers();
    this.#chat = new ChatView(loadSettings(), {
      offHint: "Connect",
      onOpen: ({ turns }) => {
        drawers.closeOverlays();
        // Without a server a chat can be read, if there is something to read.
        this.#show(this.#isReady || turns.length > 0 ? "chat" : "connect");
      },
      onStats: (stats) => this.#panel?.update(stats),
    });
  }

  async start(): Promise<void> {
    const { client } = this.#connection;
    try {
      const model = await client.describe();
      this.#use(serverSource(client, model));
    } catch (error) {
      this.#show("connect");
      setText(byId("model-name"), "Not connected");
      if (!(error instanceof ServerError)) throw error;
      if (error.status === 401) this.#askForKey();
      else showFailure(explainServerError(error), () => void this.start());
    }
  }

  #askForKey(): void {
    askForKey(this.#connection.hasKey, (key) => {
      this.#connection.useKey(key);
      void this.start();
    });
  }

  #use(source: AnswerSource): void {
    const { path } = source.model;
    setText(byId("model-name"), path);
    document.title = `${path} · wisp`;
    byId("server-model").toggleAttribute("data-ready", true);
    this.#panel?.close();
    this.#panel = mountServerPanel(byId("panel"), this.#connection);
    this.#chat.useSource(source);
    this.#isReady = true;
    this.#show("chat");
    announce(`${path} is ready`);
  }

  #show(view: "connect" | "chat"): void {
    byId("connect-view").hidden = view !== "connect";
    byId("chat-view").hidden = view !== "chat";
    byId("composer").hidden = view !== "chat";
    if (view === "chat") this.#chat.focus();
  }
}
