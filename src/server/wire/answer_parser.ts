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

  constructor(options: MessageParserOptions) {
    this.#parser = createMessageParser(options);
  }

  /** Tokens so far that the model has thought with, the mark behind its thoughts included. */
  get reasoningTokens(): number {
    return this.#reasoningTokens;
  }

  /** What a chunk lets the client know. */
  take({ text, tokens, finish }: GenerationChunk): readonly MessageEvent[] {
    const wasReasoning = this.#parser.isReasoning;
    const events = this.#parser.push(text);
    if (wasReasoning || this.#parser.isReasoning) this.#reasoningTokens += tokens.length;
    return finish === null ? events : [...events, ...this.#parser.end()];
  }
}
