/**
 * `POST /v1/chat/completions`: a conversation in, the assistant's next message out, or several to choose from.
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
import { GenerationGroup, type GroupChunk } from "./generation_group.ts";
import { asClientWrote } from "./logprob_fields.ts";
import type { ServerContext } from "./server_context.ts";
import { type UsageOptions, wireUsage } from "./usage.ts";
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
  const group = await GenerationGroup.answer(context, body, request.signal).catch(
    (error: unknown) => {
      throw asClientWrote(error, "chat");
    },
  );
  const usageOptions = { samples: body.requests.length, cacheReport: context.cacheReport };

  if (body.stream) {
    const stream = new ChatStream(body, { created, usageOptions });
    return eventStream(group, {
      events: (item) => stream.events(item),
      last: () => stream.lastEvents(),
      failure: (error) => {
        context.reportError(error);
        return { error: flatErrorBody(error) };
      },
    });
  }

  const answers = body.requests.map(() => new ChatAnswer());
  for await (const { index, chunk } of group) answers[index]!.append(chunk);
  return Response.json(wireCompletion(body, { created, answers, usageOptions }));
}

type FinishedChunk = GenerationChunk & { readonly finish: FinishReason };

function requireFinished(last: GenerationChunk | null): FinishedChunk {
  if (last?.finish) return last as FinishedChunk;
  throw new Error("Cannot answer: the engine ended a generation without a reason");
}

/** One choice of an answer that is sent as a whole. */
class ChatAnswer {
  text = "";
  readonly logprobs: TokenLogprobs[] = [];
  #last: GenerationChunk | null = null;

  get last(): FinishedChunk {
    return requireFinished(this.#last);
  }

  append(chunk: GenerationChunk): void {
    this.text += chunk.text;
    for (const entry of chunk.logprobs ?? []) this.logprobs.push(entry);
    this.#last = chunk;
  }
}

function wireCompletion(
  body: ChatBody,
  {
    created,
    answers,
    usageOptions,
  }: {
    readonly created: number;
    readonly answers: readonly ChatAnswer[];
    readonly usageOptions: UsageOptions;
  },
): object {
  return {
    id: body.rid ?? answers[0]!.last.requestId,
    object: "chat.completion",
    created,
    model: body.model,
    choices: answers.map(({ text, logprobs, last }, index) => ({
      index,
      message: {
        role: "assistant",
        content: text === "" ? null : text,
        reasoning_content: null,
        tool_calls: null,
      },
      logprobs: body.requests[index]!.logprobs === undefined ? null : wireChatLogprobs(logprobs),
      finish_reason: last.finish.type,
      matched_stop: matchedStop(last.finish),
    })),
    usage: wireUsage(
      answers.map(({ last }) => last),
      usageOptions,
    ),
    metadata: { weight_version: "default" },
  };
}

/** One choice of a stream as far as it has come. */
interface StreamedChoice {
  readonly index: number;
  /** Of tokens whose text is still held back. */
  logprobs: TokenLogprobs[];
  last: GenerationChunk | null;
}

/**
 * Text deltas -> the events of a chat stream: role and content of each choice as they come, then the
 * finish of every choice, then usage when asked for.
 */
class ChatStream {
  readonly #body: ChatBody;
  readonly #created: number;
  readonly #usageOptions: UsageOptions;
  readonly #choices: readonly StreamedChoice[];

  constructor(
    body: ChatBody,
    { created, usageOptions }: { readonly created: number; readonly usageOptions: UsageOptions },
  ) {
    this.#body = body;
    this.#created = created;
    this.#usageOptions = usageOptions;
    this.#choices = body.requests.map((_, index) => ({ index, logprobs: [], last: null }));
  }

  events({ index, chunk }: GroupChunk): readonly object[] {
    const choice = this.#choices[index]!;
    const isFirst = choice.last === null;
    choice.last = chunk;
    choice.logprobs.push(...(chunk.logprobs ?? []));
    const events: object[] = [];
    if (isFirst) events.push(this.#delta(choice, { role: "assistant", content: "" }));
    if (chunk.text !== "") {
      const delta = { role: null, content: chunk.text };
      events.push(this.#delta(choice, delta, { logprobs: takeLogprobs(choice) }));
    }
    return events;
  }

  lastEvents(): readonly object[] {
    const ends = this.#choices.map(({ last }) => requireFinished(last));
    const events = this.#choices.map((choice, i) => {
      const end = { logprobs: takeLogprobs(choice), finish: ends[i]!.finish };
      return this.#delta(choice, { role: null, content: null }, end);
    });
    if (this.#body.includeUsage) {
      events.push(this.#event(ends[0]!, [], this.#usage()));
    }
    return events;
  }

  #delta(
    { index, last }: StreamedChoice,
    delta: { readonly role: string | null; readonly content: string | null },
    {
      logprobs = null,
      finish = null,
    }: { readonly logprobs?: object | null; readonly finish?: FinishReason | null } = {},
  ): object {
    const choice = {
      index,
      delta: { ...delta, reasoning_content: null, tool_calls: null },
      logprobs,
      finish_reason: finish === null ? null : finish.type,
      matched_stop: finish === null ? null : matchedStop(finish),
    };
    const usage = this.#body.continuousUsage ? this.#usage() : null;
    return this.#event(last!, [choice], usage);
  }

  #usage(): object {
    return wireUsage(
      this.#choices.map(({ last }) => last),
      this.#usageOptions,
    );
  }

  #event({ requestId }: GenerationChunk, choices: readonly object[], usage: object | null): object {
    const { model, rid = requestId } = this.#body;
    return {
      id: rid,
      object: "chat.completion.chunk",
      created: this.#created,
      model,
      choices,
      usage,
    };
  }
}

/** The entries that no event has carried yet; every token is told about once. */
function takeLogprobs(choice: StreamedChoice): object | null {
  const entries = choice.logprobs;
  choice.logprobs = [];
  return entries.length === 0 ? null : wireChatLogprobs(entries);
}

function matchedStop(finish: FinishReason): number | string | null {
  return finish.type === "stop" ? finish.matched : null;
}
