/**
 * An engine as the `ai` SDK has its language models: the interface "v3" of `@ai-sdk/provider`.
 *
 * @module
 */
import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3Content,
  LanguageModelV3GenerateResult,
  LanguageModelV3StreamPart,
  LanguageModelV3StreamResult,
} from "@ai-sdk/provider";
import type { ChatCompletionMessage, OpenaiChat } from "../server/openai_chat.ts";
import { chatBody } from "./chat_body.ts";
import { finishReasonOf, StreamParts, usageOf } from "./stream_parts.ts";

/** What a model is made of: an engine of this package has both. */
export interface ModelEngine {
  readonly model: { readonly path: string };
  readonly chat: OpenaiChat;
}

export class WispLanguageModel implements LanguageModelV3 {
  readonly specificationVersion = "v3";
  readonly provider = "wisp";
  readonly modelId: string;
  /** None: the SDK downloads what addresses name. */
  readonly supportedUrls = {};
  readonly #engine: ModelEngine;

  constructor(engine: ModelEngine, modelId: string) {
    this.#engine = engine;
    this.modelId = modelId;
  }

  async doGenerate(options: LanguageModelV3CallOptions): Promise<LanguageModelV3GenerateResult> {
    const { body, warnings } = chatBody(options, this.modelId);
    const answer = await this.#engine.chat.completions.create(body, signalOf(options));
    const { message, finish_reason } = answer.choices[0]!;
    return {
      content: contentOf(message),
      finishReason: finishReasonOf(finish_reason),
      usage: usageOf(answer.usage),
      warnings,
      request: { body },
      response: {
        id: answer.id,
        modelId: answer.model,
        timestamp: new Date(1000 * answer.created),
        body: answer,
      },
    };
  }

  async doStream(options: LanguageModelV3CallOptions): Promise<LanguageModelV3StreamResult> {
    const { body, warnings } = chatBody(options, this.modelId);
    const streamed = { ...body, stream: true as const, stream_options: { include_usage: true } };
    const chunks = await this.#engine.chat.completions.create(streamed, signalOf(options));
    const parts = new StreamParts({ warnings, raw: options.includeRawChunks === true });
    return { stream: streamOf(parts.of(chunks)), request: { body: streamed } };
  }
}

function signalOf({ abortSignal }: LanguageModelV3CallOptions): { readonly signal?: AbortSignal } {
  return abortSignal === undefined ? {} : { signal: abortSignal };
}

function contentOf(message: ChatCompletionMessage): LanguageModelV3Content[] {
  const { reasoning_content: reasoning, content, tool_calls: calls = [] } = message;
  return [
    ...(reasoning ? [{ type: "reasoning" as const, text: reasoning }] : []),
    ...(content ? [{ type: "text" as const, text: content }] : []),
    ...calls.map(({ id, function: called }) => ({
      type: "tool-call" as const,
      toolCallId: id,
      toolName: called.name,
      input: called.arguments,
    })),
  ];
}

/** A reader that leaves ends the generation. */
function streamOf(
  parts: AsyncGenerator<LanguageModelV3StreamPart, void>,
): ReadableStream<LanguageModelV3StreamPart> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel() {
      await parts.return();
    },
  });
}
