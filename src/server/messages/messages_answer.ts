/**
 * Answers of `/v1/messages` in Anthropic's shape: as a whole, and as events.
 *
 * @module
 */
import type { GroupChunk } from "../generation_group.ts";
import {
  type AnswerBlock,
  BlockAnswer,
  type BlockEvent,
  readArguments,
} from "../wire/answer_blocks.ts";
import type { FinishedChunk } from "../wire/chat_message.ts";
import { wireWarnings } from "../wire/metadata.ts";
import type { MessagesBody } from "./messages_request.ts";

export interface MessagesAnswerOptions {
  /** Whether to tell how much of the prompt was in the prefix cache. */
  readonly cacheReport: boolean;
}

export class MessagesAnswer {
  readonly #body: MessagesBody;
  readonly #options: MessagesAnswerOptions;
  readonly #answer: BlockAnswer;
  #isBegun = false;

  constructor(body: MessagesBody, options: MessagesAnswerOptions) {
    this.#body = body;
    this.#options = options;
    this.#answer = new BlockAnswer(body.parsing);
  }

  /** The message, once it is whole. */
  wire(warnings: readonly string[]): object {
    const { last, blocks } = this.#answer;
    return {
      ...this.#head(blocks.map((block) => this.#wholeBlock(block))),
      ...this.#end(),
      usage: this.#usage(last),
      ...wireWarnings(warnings),
    };
  }

  /** What a chunk lets the client know. */
  events({ chunk }: GroupChunk): readonly object[] {
    const told = this.#answer.take(chunk).flatMap((event) => this.#blockEvents(event));
    if (this.#isBegun) return told;
    this.#isBegun = true;
    const message = {
      ...this.#head([]),
      stop_reason: null,
      stop_sequence: null,
      usage: this.#usage(chunk),
    };
    return [{ type: "message_start", message }, { type: "ping" }, ...told];
  }

  lastEvents(warnings: readonly string[]): readonly object[] {
    const usage = this.#usage(this.#answer.last);
    return [
      { type: "message_delta", delta: this.#end(), usage, ...wireWarnings(warnings) },
      { type: "message_stop" },
    ];
  }

  #head(content: readonly object[]): object {
    const { id, model } = this.#body;
    return { id, type: "message", role: "assistant", model, content };
  }

  #end(): object {
    const { last, hasCalls } = this.#answer;
    const matched = last.finish.type === "stop" ? last.finish.matched : null;
    return {
      stop_reason: stopReason(last, hasCalls),
      stop_sequence: typeof matched === "string" ? matched : null,
    };
  }

  #usage(chunk: Pick<FinishedChunk, "promptTokens" | "cachedTokens" | "completionTokens">): object {
    const { cacheReport } = this.#options;
    const { promptTokens, cachedTokens, completionTokens } = chunk;
    return {
      // Cached ones are told beside the others there.
      input_tokens: cacheReport ? promptTokens - cachedTokens : promptTokens,
      cache_creation_input_tokens: cacheReport ? 0 : null,
      cache_read_input_tokens: cacheReport ? cachedTokens : null,
      output_tokens: completionTokens,
      ...(this.#body.parsing.reasoning !== undefined && {
        output_tokens_details: { thinking_tokens: this.#answer.reasoningTokens },
      }),
    };
  }

  #wholeBlock(block: AnswerBlock): object {
    const { kind, id, name, text } = block;
    if (kind === "content") return { type: "text", text, citations: null };
    if (kind === "call") return { type: "tool_use", id, name, input: readArguments(block) };
    return { type: "thinking", thinking: this.#shown(text), signature: this.#body.id };
  }

  #blockEvents(event: BlockEvent): readonly object[] {
    const { index, kind } = event.block;
    if (event.type === "begin") {
      return [{ type: "content_block_start", index, content_block: emptyBlock(event.block) }];
    }
    const delta = (what: object) => ({ type: "content_block_delta", index, delta: what });
    if (event.type === "end") {
      const stop = { type: "content_block_stop", index };
      if (kind !== "reasoning") return [stop];
      return [delta({ type: "signature_delta", signature: this.#body.id }), stop];
    }
    const { text } = event;
    if (kind === "content") return [delta({ type: "text_delta", text })];
    if (kind === "call") return [delta({ type: "input_json_delta", partial_json: text })];
    const thinking = this.#shown(text);
    return thinking === "" ? [] : [delta({ type: "thinking_delta", thinking })];
  }

  #shown(thought: string): string {
    return this.#body.showsThinking ? thought : "";
  }
}

function emptyBlock({ kind, id, name }: AnswerBlock): object {
  if (kind === "content") return { type: "text", text: "", citations: null };
  if (kind === "call") return { type: "tool_use", id, name, input: {} };
  return { type: "thinking", thinking: "", signature: "" };
}

/** Null for an answer that was aborted: there is no word for it. */
function stopReason({ finish }: FinishedChunk, hasCalls: boolean): string | null {
  if (finish.type === "length") return "max_tokens";
  if (finish.type === "abort") return null;
  if (hasCalls) return "tool_use";
  return typeof finish.matched === "string" ? "stop_sequence" : "end_turn";
}
