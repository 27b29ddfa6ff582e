/**
 * The page as a whole: which model answers, which view is shown, which parts know of each other.
 *
 * @module
 */
import { inspectAdapter } from "wisp-llm/browser";
import { ChatView } from "../chat/chat_view.ts";
import { loadSettings } from "../chat/settings.ts";
import { engineSource } from "../model/engine_source.ts";
import { type LoadedModel, loadModel } from "../model/load_model.ts";
import { keptWishes } from "../model/load_wishes.ts";
import { choiceOfQuery, type ModelChoice, nameOf } from "../model/model_choice.ts";
import { Picker } from "../model/picker.ts";
import { ProgressView } from "../model/progress_view.ts";
import { mountPanel, type Panel } from "../panel/panel.ts";
import { announce } from "./announce.ts";
import { clearBanner, showBanner, showError, showRecovery } from "./banner.ts";
import { DecodeNodeSwitch } from "./decode_node.ts";
import { byId, setText } from "./dom.ts";
import { Drawers } from "./drawers.ts";
import { EndpointSwitch } from "./endpoint.ts";
import { startTheme } from "./theme.ts";

export class App {
  readonly #options = keptWishes();
  readonly #picker: Picker;
  readonly #chat: ChatView;
  readonly #endpoint = new EndpointSwitch();
  readonly #node = new DecodeNodeSwitch();
  #loaded: LoadedModel | undefined;
  #panel: Panel | undefined;
  /** Set while a model is loaded. */
  #loading: AbortController | undefined;

  constructor() {
    startTheme(byId("theme"));
    const drawers = new Drawers();
    this.#chat = new ChatView(loadSettings(), {
      offHint: "Load a model",
      onOpen: ({ turns }) => {
        drawers.closeOverlays();
        // Without a model a chat can be read, if there is something to read.
        const isReadable = this.#loaded !== undefined || turns.length > 0;
        if (this.#loading === undefined) this.#show(isReadable ? "chat" : "models");
      },
      onStats: (stats) => this.#panel?.update(stats),
    });
    this.#picker = new Picker(this.#options, {
      pick: (choice) => void this.#load(choice),
      fail: showError,
    });
    byId("models").append(this.#picker.element);
    byId("endpoint").append(this.#endpoint.element, this.#node.element);
    byId("open-models").addEventListener("click", () => {
      const isShown = !byId("models-view").hidden;
      this.#show(isShown && this.#loaded !== undefined ? "chat" : "models");
    });
  }

  async start(): Promise<void> {
    this.#show("models");
    try {
      const { warning } = await inspectAdapter();
      if (warning !== undefined) showBanner({ text: warning }, "warning");
    } catch (error) {
      // Models can be looked at all the same.
      showError(error);
      return;
    }
    const choice = choiceOfQuery(location.search);
    if (choice !== undefined) await this.#load(choice);
  }

  #show(view: "models" | "chat"): void {
    byId("models-view").hidden = view !== "models";
    byId("chat-view").hidden = view !== "chat";
    byId("composer").hidden = view !== "chat";
    if (view === "models") this.#picker.refresh();
    else this.#chat.focus();
  }

  async #load(choice: ModelChoice): Promise<void> {
    if (this.#loading !== undefined) return;
    clearBanner();
    const loading = new AbortController();
    this.#loading = loading;
    const view = new ProgressView(nameOf(choice), () => loading.abort());
    byId("models").replaceChildren(view.element);
    byId("models-view").toggleAttribute("data-loading", true);
    try {
      await this.#unload();
      this.#show("models");
      const loaded = await loadModel(choice, {
        options: this.#options,
        signal: loading.signal,
        onProgress: (progress) => view.show(progress),
        onFit: (fit) => view.showFit(fit),
        onRecovery: showRecovery,
        onPages: (pages) => this.#node.arrive(pages),
        onPrefixProblem: (problem) =>
          showBanner({ text: "Beginnings of chats cannot be kept.", advice: problem }, "warning"),
      });
      this.#use(loaded);
    } catch (error) {
      announce(loading.signal.aborted ? "Loading was cancelled" : "Loading has failed");
      showError(error);
    } finally {
      this.#loading = undefined;
      byId("models").replaceChildren(this.#picker.element);
      byId("models-view").removeAttribute("data-loading");
      this.#picker.refresh();
    }
  }

  #use(loaded: LoadedModel): void {
    this.#loaded = loaded;
    setText(byId("model-name"), loaded.name);
    byId("open-models").title = loaded.fit.reason;
    byId("open-models").toggleAttribute("data-ready", true);
    this.#panel = mountPanel(byId("panel"), loaded.engine);
    this.#chat.useSource(engineSource(loaded.engine));
    void this.#endpoint.use(loaded);
    void this.#node.use(loaded);
    this.#show("chat");
    announce(`${loaded.name} is ready`);
  }

  /** Memory of the model before has to be free for the next. */
  async #unload(): Promise<void> {
    this.#chat.useSource(undefined);
    this.#panel?.close();
    this.#panel = undefined;
    const engine = this.#loaded?.engine;
    this.#loaded = undefined;
    setText(byId("model-name"), "Choose a model");
    byId("open-models").removeAttribute("data-ready");
    await this.#endpoint.use(undefined);
    await this.#node.use(undefined);
    await engine?.close();
  }
}
