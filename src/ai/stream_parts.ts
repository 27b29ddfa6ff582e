/**
 * The chunks of a streamed chat as the `ai` SDK's parts: blocks of text and of thoughts, and calls,
 * each with a beginning and an end.
 *
 * @module
 */
import type {
  LanguageModelV3FinishReason,
  LanguageModelV3StreamPart,
  LanguageModelV3Usage,
  SharedV3Warning,
} from "@ai-sdk/provider";
import type {
  ChatCompletionCallDelta,
  ChatCompletionChunk,
  ChatCompletionUsage,
  ChatFinishReason,
} from "../server/openai_chat.ts";

type Part = LanguageModelV3StreamPart;
type Block = "text" | "reasoning";

export function finishReasonOf(reason: ChatFinishReason): LanguageModelV3FinishReason {
  return { unified: reason === "tool_calls" ? "tool-calls" : reason, raw: reason };
}

/** @param usage Absent where the stream ended before it was told. */
export function usageOf(usage: ChatCompletionUsage | null): LanguageModelV3Usage {
  const read = usage?.prompt_tokens_details?.cached_tokens ?? 0;
  const reasoning = usage?.completion_tokens_details?.reasoning_tokens;
  const written = usage?.completion_tokens;
  return {
    inputTokens: {
      total: usage?.prompt_tokens,
      noCache: usage && usage.prompt_tokens - read,
      cacheRead: usage && read,
      cacheWrite: undefined,
    } as LanguageModelV3Usage["inputTokens"],
    outputTokens: {
      total: written,
      text: written === undefined || reasoning === undefined ? undefined : written - reasoning,
      reasoning,
    },
  };
}

export class StreamParts {
  readonly #warnings: SharedV3Warning[];
  readonly #raw: boolean;
  /** What has begun and not ended: a block, or a call. */
  #open: { readonly type: Block; readonly id: string } | undefined;
  #call: { readonly id: string; readonly name: string; text: string } | undefined;
  #blocks = 0;
  #finish: LanguageModelV3FinishReason = { unified: "other", raw: undefined };
  #usage: ChatCompletionUsage | null = null;

  constructor({ warnings, raw }: { readonly warnings: SharedV3Warning[]; readonly raw: boolean }) {
    this.#warnings = warnings;
    this.#raw = raw;
  }

  /** A failure within the answer is a part of it. */
  async *of(chunks: AsyncIterable<ChatCompletionChunk>): AsyncGenerator<Part, void> {
    yield { type: "stream-start", warnings: this.#warnings };
    let isFirst = true;
    try {
      for await (const chunk of chunks) {
        if (this.#raw) yield { type: "raw", rawValue: chunk };
        if (isFirst) yield metadataOf(chunk);
        isFirst = false;
        yield* this.#parts(chunk);
      }
    } catch (error) {
      if (error instanceof DOMException && error.name === "AbortError") throw error;
      yield { type: "error", error };
      this.#finish = { unified: "error", raw: undefined };
    }
    yield* this.#end();
    yield { type: "finish", finishReason: this.#finish, usage: usageOf(this.#usage) };
  }

  *#parts({ choices, usage }: ChatCompletionChunk): Generator<Part, void> {
    this.#usage = usage ?? this.#usage;
    const choice = choices[0];
    if (choice === undefined) return;
    const { delta, finish_reason } = choice;
    if (finish_reason !== null) this.#finish = finishReasonOf(finish_reason);
    if (delta.reasoning_content) yield* this.#piece("reasoning", delta.reasoning_content);
    if (delta.content) yield* this.#piece("text", delta.content);
    for (const call of delta.tool_calls ?? []) yield* this.#callPiece(call);
  }

  *#piece(type: Block, delta: string): Generator<Part, void> {
    if (this.#open?.type !== type) {
      yield* this.#end();
      const id = String(this.#blocks++);
      this.#open = { type, id };
      yield { type: `${type}-start`, id };
    }
    yield { type: `${type}-delta`, id: this.#open.id, delta };
  }

  *#callPiece({
    id,
    function: { name, arguments: delta },
  }: ChatCompletionCallDelta): Generator<Part, void> {
    if (id !== undefined && name !== undefined) {
      yield* this.#end();
      this.#call = { id, name, text: "" };
      yield { type: "tool-input-start", id, toolName: name };
    }
    if (delta === "" || this.#call === undefined) return;
    this.#call.text += delta;
    yield { type: "tool-input-delta", id: this.#call.id, delta };
  }

  *#end(): Generator<Part, void> {
    if (this.#open !== undefined) yield { type: `${this.#open.type}-end`, id: this.#open.id };
    this.#open = undefined;
    if (this.#call === undefined) return;
    const { id, name, text } = this.#call;
    this.#call = undefined;
    yield { type: "tool-input-end", id };
    // A call that an error has cut off is none to run.
    if (this.#finish.unified === "error") return;
    yield { type: "tool-call", toolCallId: id, toolName: name, input: text };
  }
}

function metadataOf({ id, model, created }: ChatCompletionChunk): Part {
  return {
    type: "response-metadata",
    id,
    modelId: model,
    timestamp: new Date(1000 * created),
  };
}
