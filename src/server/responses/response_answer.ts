/**
 * Answers of `/v1/responses`: as a whole, and as numbered events.
 *
 * @module
 */
import type { ChatMessage } from "../../generation.ts";
import { errorBody } from "../../http/error_response.ts";
import { present } from "../../http/fields.ts";
import type { GroupChunk } from "../generation_group.ts";
import { BlockAnswer, type BlockEvent } from "../wire/answer_blocks.ts";
import { wireWarnings } from "../wire/metadata.ts";
import { ResponseItems } from "./response_items.ts";
import type { ResponseBody } from "./response_request.ts";

export interface ResponseAnswerOptions {
  /** Whether to tell how much of the prompt was in the prefix cache. */
  readonly cacheReport: boolean;
  /** Unix time in seconds. */
  readonly created: number;
}

type Status = "in_progress" | "completed" | "incomplete" | "failed";

export class ResponseAnswer {
  readonly #body: ResponseBody;
  readonly #options: ResponseAnswerOptions;
  readonly #answer: BlockAnswer;
  readonly #items: ResponseItems;
  #sequenceNumber = 0;
  #isBegun = false;

  constructor(body: ResponseBody, options: ResponseAnswerOptions) {
    this.#body = body;
    this.#options = options;
    this.#answer = new BlockAnswer(body.parsing);
    this.#items = new ResponseItems(body.id);
  }

  /** What the model has said, as the conversation goes on from it: without a call that is cut off. */
  get message(): ChatMessage {
    const { blocks } = this.#answer;
    const textOf = (kind: string) =>
      blocks.flatMap((block) => (block.kind === kind ? [block.text] : [])).join("");
    const [content, reasoning] = [textOf("content"), textOf("reasoning")];
    const calls = blocks.filter(({ kind, isCut }) => kind === "call" && !isCut);
    return present<ChatMessage>({
      role: "assistant",
      content: content === "" && calls.length > 0 ? null : content,
      reasoning_content: reasoning === "" ? undefined : reasoning,
      tool_calls:
        calls.length === 0
          ? undefined
          : calls.map(({ id, name, text }) => ({
              id,
              type: "function",
              function: { name, arguments: text },
            })),
    });
  }

  /** UTF-16 units of the answer's texts. */
  get units(): number {
    return this.#answer.blocks.reduce((sum, { text, name }) => sum + text.length + name.length, 0);
  }

  /** The response, once it is whole. */
  wire(warnings: readonly string[]): object {
    const { last, blocks } = this.#answer;
    const { finish } = last;
    const isLong = finish.type === "length";
    // Also one that was aborted: streams have no event for one that was cancelled.
    const status = finish.type === "stop" ? "completed" : "incomplete";
    return {
      ...this.#response(status),
      completed_at: Math.floor(Date.now() / 1000),
      incomplete_details: isLong ? { reason: "max_output_tokens" } : null,
      output: blocks.map((block) => this.#items.item(block)),
      usage: this.#usage(),
      ...wireWarnings(warnings),
    };
  }

  /** What a chunk lets the client know. */
  events({ chunk }: GroupChunk): readonly object[] {
    const begin = this.#isBegun ? [] : this.#beginEvents();
    this.#isBegun = true;
    return [...begin, ...this.#answer.take(chunk).flatMap((event) => this.#blockEvents(event))];
  }

  #beginEvents(): readonly object[] {
    const response = this.#response("in_progress");
    return ["response.created", "response.in_progress"].map((type) =>
      this.#event(type, { response }),
    );
  }

  /** @param response What `wire` has made. */
  lastEvents(response: object): readonly object[] {
    const isWhole = this.#answer.last.finish.type === "stop";
    return [this.#event(isWhole ? "response.completed" : "response.incomplete", { response })];
  }

  failure(error: unknown): object {
    const { message, code } = errorBody(error).error;
    const response = {
      ...this.#response("failed"),
      error: { code: code ?? "server_error", message },
      output: this.#answer.blocks.map((block) => this.#items.item(block)),
    };
    return this.#event("response.failed", { response });
  }

  #response(status: Status): object {
    const { id, echo } = this.#body;
    return {
      id,
      object: "response",
      created_at: this.#options.created,
      status,
      error: null,
      incomplete_details: null,
      ...echo,
      output: [],
      usage: null,
    };
  }

  #event(type: string, content: object): object {
    return { type, sequence_number: this.#sequenceNumber++, ...content };
  }

  #blockEvents(event: BlockEvent): readonly object[] {
    return this.#items.events(event).map(({ type, ...rest }) => this.#event(type, rest));
  }

  #usage(): object {
    const { promptTokens, cachedTokens, completionTokens } = this.#answer.last;
    return {
      input_tokens: promptTokens,
      input_tokens_details: { cached_tokens: this.#options.cacheReport ? cachedTokens : 0 },
      output_tokens: completionTokens,
      output_tokens_details: { reasoning_tokens: this.#answer.reasoningTokens },
      total_tokens: promptTokens + completionTokens,
    };
  }
}
