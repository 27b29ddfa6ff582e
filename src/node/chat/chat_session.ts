/**
 * A conversation in the terminal: questions, answers, results of tools, and commands about them.
 *
 * @module
 */
import type { ChatMessage, ChatToolCall } from "../../chat_message.ts";
import type { ServedModel } from "../../client/chat_exchange.ts";
import { AnswerTimes } from "./answer_times.ts";
import type { ChatDisplay } from "./chat_display.ts";
import { GrowingMessage } from "./chat_history.ts";
import type { ChatPartner } from "./chat_partner.ts";
import type { ImageFile } from "./image_file.ts";
import { INTERRUPT, type LineInput } from "./line_input.ts";

export interface ChatSettings {
  /** What the model is told before everything else. */
  system: string | undefined;
  /** Function tools in OpenAI's form. */
  tools: readonly object[];
  /** Whether the model is told to think; undefined leaves it to the model. */
  thinking: boolean | undefined;
  /** Fields of each request, by the names of the wire. */
  readonly fields: Readonly<Record<string, number>>;
}

export interface ChatSurroundings {
  readonly partner: ChatPartner;
  readonly lines: LineInput;
  readonly display: ChatDisplay;
}

export class ChatSession {
  readonly settings: ChatSettings;
  /** Without the system prompt. */
  messages: ChatMessage[] = [];
  readonly #surroundings: ChatSurroundings;
  /** What is shown with the next question. */
  shown: readonly ImageFile[] = [];
  /** Those of each question that had some. */
  readonly #images = new Map<ChatMessage, readonly string[]>();
  #lastQuestion: ChatMessage | undefined;

  constructor(settings: ChatSettings, surroundings: ChatSurroundings) {
    this.settings = settings;
    this.#surroundings = surroundings;
  }

  /** As the model is given them. */
  get allMessages(): readonly ChatMessage[] {
    const { system } = this.settings;
    return system === undefined
      ? this.messages
      : [{ role: "system", content: system }, ...this.messages];
  }

  /** Whom it talks to. */
  get model(): ServedModel {
    return this.#surroundings.partner.model;
  }

  /** Of all messages, in order. */
  get images(): readonly string[] {
    return this.messages.flatMap((message) => this.#images.get(message) ?? []);
  }

  clear(): void {
    this.messages = [];
    this.#images.clear();
    this.#lastQuestion = undefined;
  }

  /**
   * Asks, and shows the answer as it comes, with a line about it. Where nothing came that the chat
   * could go on from, the question is taken back.
   *
   * @returns Whether there is an answer: an interrupt leaves what is there of it.
   * @throws {EngineError} when the model cannot answer; the chat is as it was.
   */
  async ask(question: string): Promise<boolean> {
    const text = { type: "text", text: question } as const;
    const places = this.shown.map(() => ({ type: "image" }) as const);
    const content = places.length === 0 ? question : [...places, text];
    const message: ChatMessage = { role: "user", content };
    const urls = this.shown.map(({ url }) => url);
    if (urls.length > 0) this.#images.set(message, urls);
    this.shown = [];
    return this.#ask(message);
  }

  async #ask(question: ChatMessage): Promise<boolean> {
    const before = [...this.messages];
    this.#lastQuestion = question;
    this.messages.push(question);
    try {
      for (;;) {
        const message = await this.#answer();
        const results = await this.#runTools(message.calls);
        const answered = message.calls.slice(0, results.length);
        if (!message.hasText && answered.length === 0) {
          this.messages = before;
          return false;
        }
        this.messages.push(message.message(answered));
        for (const result of results) this.messages.push(result);
        if (results.length === 0 || answered.length < message.calls.length) return true;
      }
    } catch (error) {
      this.messages = before;
      throw error;
    }
  }

  /**
   * Asks the last question again, in place of what came of it.
   *
   * @returns False where nothing has been asked.
   */
  async retry(): Promise<boolean> {
    const question = this.#lastQuestion;
    if (question === undefined) return false;
    const last = this.messages.lastIndexOf(question);
    // Where the last question failed, it was taken back already.
    if (last >= 0) this.messages.splice(last);
    await this.#ask(question);
    return true;
  }

  async #answer(): Promise<GrowingMessage> {
    const { partner, lines, display } = this.#surroundings;
    const { tools, thinking, fields } = this.settings;
    const stop = new AbortController();
    const message = new GrowingMessage();
    const times = new AnswerTimes();
    let end: string | null = null;
    lines.onInterrupt = () => stop.abort();
    try {
      const { allMessages: messages, images } = this;
      const request = { messages, images, tools, thinking, fields, signal: stop.signal };
      for await (const { events, usage, finish } of partner.client.answer(partner.model, request)) {
        times.take(usage, events.length > 0);
        end = finish;
        for (const event of events) {
          message.take(event);
          display.event(event);
        }
      }
    } catch (error) {
      if (!stop.signal.aborted) throw error;
      end = "abort";
    } finally {
      lines.onInterrupt = undefined;
      display.endLine();
    }
    const said = [ENDS[end ?? ""], times.line()].filter((part) => part !== undefined);
    if (said.length > 0) display.note(said.join(" · "));
    return message;
  }

  /** The person says what each call gives; the calls from the first interrupt on have no result. */
  async #runTools(calls: readonly ChatToolCall[]): Promise<readonly ChatMessage[]> {
    const { lines, display } = this.#surroundings;
    const results: ChatMessage[] = [];
    for (const { id, function: called } of calls) {
      display.note(`What does ${called.name}(${called.arguments}) give?`);
      const result = await lines.read("result> ");
      if (result === undefined || result === INTERRUPT) break;
      results.push({
        role: "tool",
        content: result,
        ...(id !== undefined && { tool_call_id: id }),
      });
    }
    return results;
  }
}

const ENDS: Readonly<Record<string, string>> = {
  length: "cut off at the token limit",
  abort: "stopped",
};
