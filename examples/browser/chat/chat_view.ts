/**
 * The chats and the one that is open: what is asked, what is answered, what is kept.
 *
 * @module
 */
import { announce } from "../app/announce.ts";
import { byId } from "../app/dom.ts";
import { formatCount } from "../app/format.ts";
import { icon } from "../app/icons.ts";
import { answer } from "./answer.ts";
import type { AnswerSource } from "./answer_source.ts";
import { showChatList } from "./chat_list.ts";
import { deleteChat, loadChats, saveChat } from "./chat_store.ts";
import { Composer } from "./composer.ts";
import {
  type Chat,
  imagesOf,
  messagesOf,
  newAnswer,
  newChat,
  type UserTurn,
} from "./conversation.ts";
import { ModeButtons } from "./mode_buttons.ts";
import type { Settings } from "./settings.ts";
import { SettingsView } from "./settings_view.ts";
import type { AnswerStats } from "./stats.ts";
import { showSuggestions } from "./suggestions.ts";
import { TOOLS } from "./tools.ts";
import { Transcript } from "./transcript.ts";

export interface ChatViewActions {
  /** What to do where nothing answers, such as "Load a model". */
  readonly offHint: string;
  /** A chat has been opened, which may have nothing in it yet. */
  readonly onOpen: (chat: Chat) => void;
  /** What the running answer takes. */
  readonly onStats: (stats: AnswerStats) => void;
}

export class ChatView {
  readonly #settings: Settings;
  readonly #actions: ChatViewActions;
  readonly #composer: Composer;
  readonly #settingsView: SettingsView;
  readonly #modes: ModeButtons;
  readonly #transcript: Transcript;
  #chats: Chat[] = loadChats();
  #chat: Chat = newChat();
  #source: AnswerSource | undefined;
  /** Set while an answer runs. */
  #running: AbortController | undefined;

  constructor(settings: Settings, actions: ChatViewActions) {
    this.#settings = settings;
    this.#actions = actions;
    this.#composer = new Composer({
      offHint: actions.offHint,
      send: (text, takeImages) => this.#send(text, takeImages),
      stop: () => this.#stop(),
    });
    this.#settingsView = new SettingsView(settings, (text) => {
      this.#chat.system = text;
      if (this.#chat.turns.length > 0) this.#keep();
    });
    this.#modes = new ModeButtons(settings);
    this.#transcript = new Transcript(byId("transcript"), byId("main"), {
      regenerate: (turn) => this.#regenerate(turn),
      resend: (turn, text) => this.#resend(turn, text),
    });
    byId("new-chat").append(icon("plus"), "New chat");
    byId("new-chat").addEventListener("click", () => {
      this.#open(newChat());
      actions.onOpen(this.#chat);
    });
    this.#open(this.#chats[0] ?? this.#chat);
  }

  /** What answers from now on; undefined while there is nothing. */
  useSource(source: AnswerSource | undefined): void {
    this.#stop();
    this.#source = source;
    this.#composer.set(source === undefined ? "off" : "ready");
    this.#composer.offerImages(source?.model.readsImages === true);
    if (source === undefined) return;
    this.#settingsView.showModel(source.model);
    showSuggestions(source.model, (text) => this.#composer.propose(text));
  }

  focus(): void {
    this.#composer.focus();
  }

  #open(chat: Chat): void {
    this.#stop();
    this.#chat = chat;
    this.#settingsView.showChat(chat);
    this.#draw();
  }

  #draw(): void {
    this.#transcript.show(this.#chat);
    byId("empty").hidden = this.#chat.turns.length > 0;
    const list = { chats: this.#chats, current: this.#chat };
    showChatList(byId("chat-list"), list, {
      open: (chat) => {
        this.#open(chat);
        this.#actions.onOpen(chat);
      },
      remove: (chat) => this.#remove(chat),
    });
  }

  #remove(chat: Chat): void {
    deleteChat(chat);
    this.#chats = this.#chats.filter((one) => one !== chat);
    announce("The chat is deleted");
    if (chat === this.#chat) this.#open(this.#chats[0] ?? newChat());
    else this.#draw();
    // The button that was pressed is gone.
    byId("new-chat").focus();
  }

  /** @returns Whether the question is taken. */
  #send(text: string, takeImages: () => readonly string[]): boolean {
    if (!this.#canAnswer()) return false;
    const images = takeImages();
    this.#chat.turns.push({ role: "user", text, ...(images.length > 0 && { images }) });
    void this.#answer();
    return true;
  }

  /** The question of this turn in other words; what came behind it goes. */
  #resend(turn: number, text: string): void {
    if (!this.#canAnswer()) return;
    this.#stop();
    const asked = this.#chat.turns[turn] as UserTurn;
    this.#chat.turns = [...this.#chat.turns.slice(0, turn), { ...asked, text }];
    void this.#answer();
    this.#composer.focus();
  }

  #regenerate(turn: number): void {
    if (!this.#canAnswer()) return;
    this.#stop();
    this.#chat.turns = this.#chat.turns.slice(0, turn);
    void this.#answer();
    this.#composer.focus();
  }

  /** If not, it says why. */
  #canAnswer(): boolean {
    if (this.#source !== undefined) return this.#modes.areReady();
    announce(`${this.#actions.offHint} first`);
    return false;
  }

  #stop(): void {
    this.#running?.abort();
    this.#running = undefined;
  }

  async #answer(): Promise<void> {
    const source = this.#source;
    const chat = this.#chat;
    if (source === undefined) return;
    const running = new AbortController();
    this.#running = running;
    const messages = messagesOf(chat);
    const images = imagesOf(chat);
    const turn = newAnswer();
    chat.turns.push(turn);
    if (!this.#chats.includes(chat)) this.#chats.unshift(chat);
    this.#keep();
    this.#draw();
    this.#composer.set("answering");
    announce("Answering");
    await answer(turn, {
      source,
      messages,
      images,
      settings: structuredClone(this.#settings),
      tools: this.#settings.usesTools ? TOOLS : [],
      signal: running.signal,
      onChange: (stats) => {
        this.#actions.onStats(stats);
        if (chat === this.#chat) this.#transcript.update();
      },
    });
    saveChat(chat);
    // Another answer may run by now, which this one has nothing to say about.
    if (this.#running !== undefined && this.#running !== running) return;
    this.#running = undefined;
    this.#composer.set(this.#source === undefined ? "off" : "ready");
    const tokens = formatCount(turn.stats?.completionTokens ?? 0, "token");
    const verb = turn.end === "stopped" ? "Stopped after" : "Answered with";
    announce(turn.end === "error" ? "The answer has failed" : `${verb} ${tokens}`);
  }

  #keep(): void {
    if (saveChat(this.#chat)) return;
    announce("This browser does not keep the chat: its storage is full or switched off");
  }
}
