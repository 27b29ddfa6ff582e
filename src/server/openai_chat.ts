/**
 * Chat completions in OpenAI's shape for programs and pages that have an engine and no server.
 *
 * @module
 */
import { EngineError } from "../errors.ts";
import type { GenerationEngine } from "../generation.ts";
import { readEvents } from "../http/event_reader.ts";
import { parsersOf } from "../text/family_parsers.ts";
import { type AppOptions, createApp } from "./app.ts";

/** What `POST /v1/chat/completions` takes. */
export interface ChatCompletionBody {
  readonly messages: readonly object[];
  readonly stream?: boolean | null;
  readonly [field: string]: unknown;
}

export interface ChatCompletionMessage {
  readonly role: "assistant";
  readonly content: string | null;
  readonly reasoning_content: string | null;
  readonly tool_calls: readonly ChatCompletionCall[] | null;
}

export interface ChatCompletionCall {
  readonly id: string;
  readonly type: "function";
  readonly function: { readonly name: string; readonly arguments: string };
}

export interface ChatCompletionUsage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
  readonly prompt_tokens_details: { readonly cached_tokens: number } | null;
}

interface Head {
  readonly id: string;
  /** Seconds of the epoch. */
  readonly created: number;
  readonly model: string;
}

export interface ChatCompletion extends Head {
  readonly object: "chat.completion";
  readonly choices: readonly {
    readonly index: number;
    readonly message: ChatCompletionMessage;
    readonly finish_reason: string;
    readonly logprobs: object | null;
  }[];
  readonly usage: ChatCompletionUsage;
}

export interface ChatCompletionChunk extends Head {
  readonly object: "chat.completion.chunk";
  readonly choices: readonly {
    readonly index: number;
    readonly delta: {
      readonly role: string | null;
      readonly content: string | null;
      readonly reasoning_content: string | null;
      readonly tool_calls: readonly object[] | null;
    };
    readonly finish_reason: string | null;
    readonly logprobs: object | null;
  }[];
  /** Of the last chunk, where `stream_options` ask for it. */
  readonly usage: ChatCompletionUsage | null;
}

/** A request that the endpoint refuses, or an answer that fails. */
export class ChatCompletionError extends EngineError {
  readonly code = "chat_completion_failed";
  /** As over HTTP: 400 for what the caller has to change. Undefined once the answer has begun. */
  readonly status: number | undefined;
  /** Path of the field to blame, when there is one. */
  readonly param: string | undefined;

  constructor(message: string, status?: number, param?: string) {
    super(message);
    this.status = status;
    this.param = param;
  }
}

export interface CreateOptions {
  /** Ends the request. */
  readonly signal?: AbortSignal;
}

export interface OpenaiChat {
  readonly completions: {
    /** @throws {ChatCompletionError} when the request is refused, or its answer fails. */
    create(
      body: ChatCompletionBody & { readonly stream: true },
      options?: CreateOptions,
    ): Promise<AsyncIterable<ChatCompletionChunk>>;
    create(
      body: ChatCompletionBody & { readonly stream?: false | null },
      options?: CreateOptions,
    ): Promise<ChatCompletion>;
  };
}

/** Names of the model and the parsers of its answers. Default: those of the model's family. */
export type OpenaiChatOptions = Pick<
  AppOptions,
  "servedModelName" | "toolCallParser" | "reasoningParser" | "requestDefaults"
>;

/** An engine as OpenAI's client has its server: `openaiChat(engine).completions.create(body)`. */
export function openaiChat(engine: GenerationEngine, options: OpenaiChatOptions = {}): OpenaiChat {
  const { toolCalls, reasoning } = parsersOf(engine.model.family);
  const app = createApp(engine, {
    toolCallParser: toolCalls,
    reasoningParser: reasoning,
    cacheReport: true,
    // The caller hears of it.
    reportError: () => {},
    ...options,
  });
  const create = async (body: ChatCompletionBody, { signal }: CreateOptions = {}) => {
    signal?.throwIfAborted();
    const response = await app.request("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      ...(signal && { signal }),
    });
    if (!response.ok) throw failureOf(await response.json(), response.status);
    return body.stream === true ? chunksOf(response, signal) : response.json();
  };
  return { completions: { create: create as OpenaiChat["completions"]["create"] } };
}

function failureOf(body: unknown, status?: number): ChatCompletionError {
  const { message, param } = (body as { readonly error: WireError }).error;
  return new ChatCompletionError(message, status, param ?? undefined);
}

interface WireError {
  readonly message: string;
  readonly param?: string | null;
}

/** A reader that stops ends the request. */
async function* chunksOf(
  response: Response,
  signal: AbortSignal | undefined,
): AsyncGenerator<ChatCompletionChunk, void> {
  try {
    for await (const payload of readEvents(response.body!)) {
      signal?.throwIfAborted();
      const chunk = JSON.parse(payload) as ChatCompletionChunk | { readonly error: WireError };
      if ("error" in chunk) throw failureOf(chunk);
      yield chunk;
    }
  } catch (error) {
    // An abort breaks the stream off.
    signal?.throwIfAborted();
    throw error;
  }
}
