/**
 * The chunks of one answer of a chat, taken apart as they come, and how many of its tokens are
 * reasoning.
 *
 * @module
 */
import type { GenerationChunk } from "../../generation.ts";
import {
  createMessageParser,
  type MessageEvent,
  type MessageParser,
  type MessageParserOptions,
} from "../../text/message_parser.ts";

export class AnswerParser {
  readonly #parser: MessageParser;
  #reasoningTokens = 0;
  #endsWithoutArguments = false;

  constructor(options: MessageParserOptions) {
    this.#parser = createMessageParser(options);
  }

  /** Tokens so far that the model has thought with, the mark behind its thoughts included. */
  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  /** Whether the answer is over and ends within a call, before its arguments. */
  get endsWithoutArguments(): boolean {
    return this.#endsWithoutArguments;
  }

  /** What a chunk lets the client know. */
  take({ text, tokens, finish }: GenerationChunk): readonly MessageEvent[] {
    const wasReasoning = this.#parser.isReasoning;
    const events = this.#parser.push(text);
    if (wasReasoning || this.#parser.isReasoning) this.#reasoningTokens += tokens.length;
    if (finish === null) return events;
    const held = this.#parser.end();
    const [told, end] = held.slice(-2);
    // What a call without any has for arguments, written as the text was over.
    const isEmpty = told?.type === "arguments" && told.text === "{}";
    this.#endsWithoutArguments = isEmpty && end?.type === "callEnd";
    return [...events, ...held];
  }
}
