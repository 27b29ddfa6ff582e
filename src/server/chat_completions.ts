/**
 * `POST /v1/chat/completions`: a conversation in, the assistant's next message out.
 *
 * All fields of the documented shapes are written, those that have no value as null.
 *
 * @module
 */
import type { FinishReason, GenerationChunk, TokenLogprobs } from "../generation.ts";
import { flatErrorBody } from "../http/error_response.ts";
import { eventStream } from "../http/event_stream.ts";
import { readJsonBody, requireJsonContentType } from "../http/read_body.ts";
import { type ChatBody, readChatBody } from "./chat_request.ts";
import { GenerationGroup } from "./generation_group.ts";
import { asClientWrote } from "./logprob_fields.ts";
import type { ServerContext } from "./server_context.ts";
import { wireChatLogprobs } from "./wire_logprobs.ts";

/** @throws before the response starts, so that errors of the request have a status of their own. */
export async function handleChatCompletions(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  requireJsonContentType(request);
  const json = await readJsonBody(request, context.maxBodyBytes);
  const body = readChatBody(json, context.engine.model);
  const created = Math.floor(Date.now() / 1000);
  const group = await GenerationGroup.start(context.engine, [body.request], request.signal).catch(
    (error: unknown) => {
      throw asClientWrote(error, "chat");
    },
  );

  if (body.stream) {
    const stream = new ChatStream(body, created);
    return eventStream(group, {
      events: ({ chunk }) => stream.events(chunk),
      last: () => stream.lastEvents(),
      failure: (error) => {
        context.reportError(error);
        return { error: flatErrorBody(error) };
      },
    });
  }

  let text = "";
  const logprobs: TokenLogprobs[] = [];
  let last: GenerationChunk | null = null;
  for await (const { chunk } of group) {
    text += chunk.text;
    logprobs.push(...(chunk.logprobs ?? []));
    last = chunk;
  }
  const finished = requireFinished(last);
  return Response.json(wireCompletion(body, { created, text, logprobs, last: finished }));
}

type FinishedChunk = GenerationChunk & { readonly finish: FinishReason };

function requireFinished(last: GenerationChunk | null): FinishedChunk {
  if (last?.finish) return last as FinishedChunk;
  throw new Error("Cannot answer: the engine ended a generation without a reason");
}

interface ChatAnswer {
  readonly created: number;
  readonly text: string;
  readonly logprobs: readonly TokenLogprobs[];
  readonly last: FinishedChunk;
}

function wireCompletion(body: ChatBody, { created, text, logprobs, last }: ChatAnswer): object {
  const message = {
    role: "assistant",
    content: text === "" ? null : text,
    reasoning_content: null,
    tool_calls: null,
  };
  return {
    id: last.requestId,
    object: "chat.completion",
    created,
    model: body.model,
    choices: [
      {
        index: 0,
        message,
        logprobs: body.request.logprobs === undefined ? null : wireChatLogprobs(logprobs),
        finish_reason: last.finish.type,
        matched_stop: matchedStop(last.finish),
      },
    ],
    usage: wireUsage(last),
    metadata: { weight_version: "default" },
  };
}

/** Text deltas -> the events of a chat stream: role, content, finish, and usage when asked for. */
class ChatStream {
  readonly #body: ChatBody;
  readonly #created: number;
  /** Of tokens whose text is still held back. */
  #logprobs: readonly TokenLogprobs[] = [];
  #last: GenerationChunk | null = null;
  #started = false;

  constructor(body: ChatBody, created: number) {
    this.#body = body;
    this.#created = created;
  }

  events(chunk: GenerationChunk): readonly object[] {
    this.#last = chunk;
    this.#logprobs = [...this.#logprobs, ...(chunk.logprobs ?? [])];
    const events: object[] = [];
    if (!this.#started) events.push(this.#delta(chunk, { role: "assistant", content: "" }));
    this.#started = true;
    if (chunk.text !== "") {
      const delta = { role: null, content: chunk.text };
      events.push(this.#delta(chunk, delta, { logprobs: this.#takeLogprobs() }));
    }
    return events;
  }

  lastEvents(): readonly object[] {
    const last = requireFinished(this.#last);
    const end = { logprobs: this.#takeLogprobs(), finish: last.finish };
    const events = [this.#delta(last, { role: null, content: null }, end)];
    if (this.#body.includeUsage) events.push(this.#event(last.requestId, [], wireUsage(last)));
    return events;
  }

  #delta(
    chunk: GenerationChunk,
    delta: { readonly role: string | null; readonly content: string | null },
    {
      logprobs = null,
      finish = null,
    }: { readonly logprobs?: object | null; readonly finish?: FinishReason | null } = {},
  ): object {
    const choice = {
      index: 0,
      delta: { ...delta, reasoning_content: null, tool_calls: null },
      logprobs,
      finish_reason: finish === null ? null : finish.type,
      matched_stop: finish === null ? null : matchedStop(finish),
    };
    return this.#event(chunk.requestId, [choice], null);
  }

  /** The entries that no event has carried yet; every token is told about once. */
  #takeLogprobs(): object | null {
    const entries = this.#logprobs;
    this.#logprobs = [];
    return entries.length === 0 ? null : wireChatLogprobs(entries);
  }

  #event(id: string, choices: readonly object[], usage: object | null): object {
    const { model } = this.#body;
    return {
      id,
      object: "chat.completion.chunk",
      created: this.#created,
      model,
      choices,
      usage,
    };
  }
}

function matchedStop(finish: FinishReason): number | string | null {
  return finish.type === "stop" ? finish.matched : null;
}

function wireUsage({ promptTokens, completionTokens }: GenerationChunk): object {
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
    prompt_tokens_details: null,
    reasoning_tokens: 0,
  };
}
