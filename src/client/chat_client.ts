/**
 * A conversation with a server that speaks OpenAI's chat completions: this one, over a socket or as a
 * function, or any other.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import { BrokenStreamError, readEvents } from "../http/event_reader.ts";
import { type FamilyParsers, parsersOf } from "../text/family_parsers.ts";
import { AnswerReader } from "./answer_reader.ts";
import type { ChatPiece, ChatRequest, ServedModel } from "./chat_exchange.ts";
import { refusalOf, ServerError } from "./server_error.ts";
import { wireMessages } from "./wire_messages.ts";

/** Sends a request to a path of the server, such as "/v1/models". */
export type Send = (path: string, init: RequestInit) => Response | Promise<Response>;

export class ChatClient {
  readonly #send: Send;

  constructor(send: Send) {
    this.#send = send;
  }

  /** @throws {ServerError} when the server refuses to say, or is none. */
  async describe(): Promise<ServedModel> {
    const list = await this.json("/v1/models");
    const [model] = (list as { readonly data?: readonly ModelEntry[] }).data ?? [];
    if (typeof model?.id !== "string")
      throw new ServerError("Cannot chat with the server: it tells of no model");
    const info = await this.#optional("/get_model_info");
    const { chat_family: family, thinking_variables: variables } = info;
    const isOurs = typeof family === "string";
    return {
      name: model.id,
      contextLength: typeof model.max_model_len === "number" ? model.max_model_len : undefined,
      isOurs,
      defaults: numbersIn(info.default_sampling_params),
      thinkingVariables: Array.isArray(variables) ? variables.map(String) : [],
      readsImages: isOurs ? info.has_image_understanding === true : undefined,
      unread: isOurs ? unreadForms(family, info) : {},
    };
  }

  /** The JSON that a GET is answered with. */
  async json(path: string): Promise<unknown> {
    const response = await this.#ask(path, { method: "GET" });
    if (!response.ok) throw await refusalOf(response);
    return response.json().catch((cause: unknown) => {
      throw new ServerError(`Cannot read ${path} of the server: it is no JSON`, undefined, {
        cause,
      });
    });
  }

  /** Servers of other kinds have no such path. What else they say is as good as nothing. */
  async #optional(path: string): Promise<Readonly<Record<string, unknown>>> {
    const answer = await this.json(path).catch((error: unknown) => {
      if (error instanceof ServerError && (error.status === 404 || error.status === undefined)) {
        return {};
      }
      throw error;
    });
    return typeof answer === "object" && answer !== null ? { ...answer } : {};
  }

  /**
   * The pieces of one answer. To stop reading, or an abort of the signal, ends the request.
   *
   * @throws {ServerError} when the server refuses the request, fails, or breaks its answer off.
   */
  async *answer(model: ServedModel, request: ChatRequest): AsyncGenerator<ChatPiece, void> {
    const { signal } = request;
    const reader = new AnswerReader(model, request);
    const response = await this.#ask("/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(bodyOf(model, request)),
      ...(signal && { signal }),
    });
    if (!response.ok || response.body === null) throw await refusalOf(response);
    try {
      for await (const payload of readEvents(response.body)) yield reader.take(payload);
    } catch (error) {
      // What an abort does to the stream is no failure of the server.
      signal?.throwIfAborted();
      if (error instanceof BrokenStreamError) {
        throw new ServerError(error.message, undefined, { cause: error });
      }
      throw error instanceof ServerError ? error : unreachable(error);
    }
    yield reader.end();
  }

  async #ask(path: string, init: RequestInit): Promise<Response> {
    try {
      return await this.#send(path, init);
    } catch (cause) {
      init.signal?.throwIfAborted();
      throw unreachable(cause);
    }
  }
}

interface ModelEntry {
  readonly id?: unknown;
  readonly max_model_len?: unknown;
}

function unreachable(cause: unknown): ServerError {
  const reason = cause instanceof Error ? reasonOf(cause) : String(cause);
  return new ServerError(`Cannot reach the server: ${reason}`, undefined, { cause });
}

/** Node says "fetch failed", and why only below it. */
function reasonOf({ message, cause }: Error): string {
  return cause instanceof Error && cause.message !== "" ? cause.message : message;
}

function numbersIn(value: unknown): Readonly<Record<string, number>> {
  if (typeof value !== "object" || value === null) return {};
  const numbers = Object.entries(value).filter(([, one]) => typeof one === "number");
  return Object.fromEntries(numbers);
}

/** What the model writes that the server does not read. A family that is not known here has no forms. */
function unreadForms(family: string, info: Readonly<Record<string, unknown>>): FamilyParsers {
  const { tool_call_parser: read, reasoning_parser: readThoughts } = info;
  const { toolCalls, reasoning } = knownForms(family);
  const isRead = typeof read === "string";
  const isThoughtRead = typeof readThoughts === "string";
  // The messages of gpt-oss hold both.
  if (toolCalls === "gpt-oss" && (isRead || isThoughtRead)) return {};
  return {
    ...(toolCalls && !isRead && { toolCalls }),
    ...(reasoning && !isThoughtRead && { reasoning }),
  };
}

function knownForms(family: string): FamilyParsers {
  try {
    return parsersOf(family);
  } catch (error) {
    if (error instanceof InvalidRequestError) return {};
    throw error;
  }
}

function bodyOf(model: ServedModel, request: ChatRequest): object {
  const { messages, images, tools, fields, thinking } = request;
  const variable = model.thinkingVariables.find((name) => /^(enable_)?thinking$/.test(name));
  const isTold = thinking !== undefined && variable !== undefined;
  const reads = model.unread.toolCalls !== undefined || model.unread.reasoning !== undefined;
  return {
    model: model.name,
    messages: wireMessages(messages, images),
    ...(tools && tools.length > 0 && { tools }),
    ...(isTold && { chat_template_kwargs: { [variable]: thinking } }),
    // The marks of what the client reads are special tokens.
    ...(reads && { skip_special_tokens: false }),
    ...fields,
    stream: true,
    stream_options: {
      include_usage: true,
      ...(model.isOurs && { continuous_usage_stats: true, include_cached_tokens: true }),
    },
  };
}
