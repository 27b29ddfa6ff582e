/**
 * Chat completions in OpenAI's shape for programs and pages that have an engine and no server.
 *
 * @module
 */
import { EngineError } from "../errors.ts";
import type { GenerationEngine } from "../generation.ts";
import { readEvents } from "../http/event_reader.ts";
import { dataUrlOf } from "../images/data_url.ts";
import { parsersOf } from "../text/family_parsers.ts";
import { type AppOptions, createApp } from "./app.ts";

/**
 * What `POST /v1/chat/completions` takes, other fields among it. The `url` of an `image_url` may be the
 * bytes of a file, a Blob or an ImageData too.
 */
export interface ChatCompletionBody {
  readonly messages: readonly object[];
  readonly stream?: boolean | null;
}

/** Chunks where the body asks for a stream, else the whole answer. */
export type ChatAnswer<Body> = Body extends { readonly stream: true }
  ? AsyncIterable<ChatCompletionChunk>
  : Body extends { readonly stream?: infer Stream }
    ? true extends Stream
      ? ChatCompletion | AsyncIterable<ChatCompletionChunk>
      : ChatCompletion
    : ChatCompletion;

/** As OpenAI's client has it, with what was thought beside it. */
export interface ChatCompletionMessage {
  readonly role: "assistant";
  readonly content: string | null;
  readonly reasoning_content: string | null;
  /** Nothing is refused by a model here. */
  readonly refusal: null;
  /** Absent where nothing is called. */
  readonly tool_calls?: ChatCompletionCall[];
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
  /** Absent where nothing was cached and nothing shown. */
  readonly prompt_tokens_details?: {
    readonly cached_tokens?: number;
    /** Rows of images. */
    readonly image_tokens?: number;
  };
  /** Absent where no thoughts are told apart. */
  readonly completion_tokens_details?: { readonly reasoning_tokens: number };
}

export interface ChatTokenLogprob {
  readonly token: string;
  readonly bytes: number[] | null;
  readonly logprob: number;
}

export interface ChatCompletionLogprobs {
  readonly content: (ChatTokenLogprob & { readonly top_logprobs: ChatTokenLogprob[] })[];
  readonly refusal: null;
}

interface Head {
  readonly id: string;
  /** Seconds of the epoch. */
  readonly created: number;
  readonly model: string;
}

/** Why an answer ended. One that `engine.abort` ends is an error. */
export type ChatFinishReason = "stop" | "length" | "tool_calls";

export interface ChatCompletion extends Head {
  readonly object: "chat.completion";
  readonly choices: {
    readonly index: number;
    readonly message: ChatCompletionMessage;
    readonly finish_reason: ChatFinishReason;
    readonly logprobs: ChatCompletionLogprobs | null;
  }[];
  readonly usage: ChatCompletionUsage;
}

/** A piece of a call: its id and its name come first, then its arguments. */
export interface ChatCompletionCallDelta {
  readonly index: number;
  readonly id?: string;
  readonly type: "function";
  readonly function: { readonly name?: string; readonly arguments: string };
}

export interface ChatCompletionDelta {
  readonly role?: "assistant";
  readonly content: string | null;
  readonly reasoning_content: string | null;
  readonly tool_calls?: ChatCompletionCallDelta[];
}

export interface ChatCompletionChunk extends Head {
  readonly object: "chat.completion.chunk";
  readonly choices: {
    readonly index: number;
    readonly delta: ChatCompletionDelta;
    readonly finish_reason: ChatFinishReason | null;
    readonly logprobs: ChatCompletionLogprobs | null;
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
    create<Body extends ChatCompletionBody>(
      body: Body,
      options?: CreateOptions,
    ): Promise<ChatAnswer<Body>>;
  };
}

/** Names of the model and the parsers of its answers. Default: those of the model's family. */
export type OpenaiChatOptions = Pick<
  AppOptions,
  "servedModelName" | "toolCallParser" | "reasoningParser" | "requestDefaults"
>;

/**
 * An engine as OpenAI's client has its server: `openaiChat(engine).completions.create(body)`. The
 * engines of this package have it as `engine.chat` already.
 */
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
      body: JSON.stringify({ ...body, messages: await writtenMessages(body.messages) }),
      ...(signal && { signal }),
    });
    if (!response.ok) {
      signal?.throwIfAborted();
      throw failureOf(await response.json(), response.status);
    }
    return body.stream === true ? chunksOf(response, signal) : shaped(await response.json());
  };
  return { completions: { create: create as OpenaiChat["completions"]["create"] } };
}

/** Messages with images in place as text. */
function writtenMessages(messages: unknown): unknown {
  if (!Array.isArray(messages)) return messages;
  return Promise.all(messages.map((message, m) => writtenMessage(message, `messages[${m}]`)));
}

async function writtenMessage(message: unknown, path: string): Promise<unknown> {
  const { content } = (message ?? {}) as { readonly content?: unknown };
  if (!Array.isArray(content)) return message;
  const parts = content.map(async (part: unknown, p) => {
    const { image_url } = (part ?? {}) as {
      readonly image_url?: { readonly url?: unknown } | null;
    };
    const { url } = image_url ?? {};
    if (typeof url !== "object" || url === null) return part;
    const at = `${path}.content[${p}].image_url.url`;
    const written = await dataUrlOf(url, at).catch((error: Error) => {
      throw new ChatCompletionError(error.message, 400, at);
    });
    return { ...(part as object), image_url: { ...image_url, url: written } };
  });
  return { ...(message as object), content: await Promise.all(parts) };
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
      yield shaped(chunk);
    }
  } catch (error) {
    // An abort breaks the stream off.
    signal?.throwIfAborted();
    throw error;
  }
}

/** Members that the server writes as null where OpenAI leaves them out. */
const ABSENT: ReadonlySet<string> = new Set([
  "tool_calls",
  "prompt_tokens_details",
  "role",
  "id",
  "name",
]);

/** What the endpoint says, in place, as OpenAI's own has it. */
function shaped<T extends ChatCompletion | ChatCompletionChunk>(answer: T): T {
  for (const choice of answer.choices) {
    if ((choice.finish_reason as string | null) === "abort") {
      throw new ChatCompletionError("Cannot complete the chat: it was aborted");
    }
    if ("message" in choice) Object.assign(choice.message, { refusal: null });
    if (choice.logprobs !== null) Object.assign(choice.logprobs, { refusal: null });
    const said: object = "message" in choice ? choice.message : choice.delta;
    leaveOut(said);
    const { tool_calls: calls = [] } = said as { readonly tool_calls?: readonly object[] };
    for (const call of calls) {
      leaveOut(call);
      leaveOut((call as ChatCompletionCall).function);
    }
  }
  if (answer.usage !== null) leaveOut(answer.usage);
  return answer;
}

function leaveOut(from: object): void {
  for (const [name, value] of Object.entries(from)) {
    if (value === null && ABSENT.has(name)) Reflect.deleteProperty(from, name);
  }
}
