/**
 * `POST /v1/chat/completions`: a conversation in, the assistant's next message out, or several to choose from.
 *
 * All fields of the documented shapes are written, those that have no value as null.
 *
 * @module
 */
import type { GenerationChunk } from "../../generation.ts";
import { flatError } from "../../http/error_response.ts";
import { eventStream } from "../../http/event_stream.ts";
import type { LogprobOptions, TokenLogprobs } from "../../logprobs.ts";
import type { MessageParserOptions } from "../../text/message_parser.ts";
import { type ChatBody, readChatBody } from "../fields/chat_request.ts";
import { GenerationGroup } from "../generation_group.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";
import { AnswerParser } from "../wire/answer_parser.ts";
import {
  ChatMessageBuilder,
  type FinishedChunk,
  requireFinished,
  wireFinishReason,
  wireMatchedStop,
} from "../wire/chat_message.ts";
import { ChatStream } from "../wire/chat_stream.ts";
import { wireMetadata } from "../wire/metadata.ts";
import { type UsageOptions, wireUsage } from "../wire/usage.ts";
import { wireChatLogprobs } from "../wire/wire_logprobs.ts";
import { asClientWrote } from "../wire/wire_names.ts";

/** @throws before the response starts, so that errors of the request have a status of their own. */
export async function handleChatCompletions(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const json = await readBody(context, request);
  const body = await readChatBody(json, context, context.bodies.of(request));
  const created = Math.floor(Date.now() / 1000);
  const group = await GenerationGroup.answer(context, body, request).catch((error: unknown) => {
    throw asClientWrote(error, { endpoint: "chat", body: json });
  });
  const usageOptions = {
    samples: body.requests.length,
    cacheReport: context.cacheReport || body.includeCachedTokens,
    countsReasoning: body.parsing.reasoning !== undefined,
  };

  if (body.stream) {
    const stream = new ChatStream(body, { created, usageOptions });
    const releaseBody = context.bodies.of(request).keep();
    return eventStream(group, {
      events: (item) => stream.events(item),
      last: () => stream.lastEvents(group.warnings),
      failure: (error) => {
        context.reportError(error, request);
        return { error: flatError(error) };
      },
      ended: () => {
        releaseBody();
        group.release();
      },
    });
  }

  const answers = body.requests.map(() => new ChatAnswer(body.parsing));
  await group.collect(({ index, chunk }) => answers[index]!.append(chunk));
  return group.releasing(() =>
    wireCompletion(body, { created, answers, usageOptions, warnings: group.warnings }),
  );
}

/** One choice of an answer that is sent as a whole. */
class ChatAnswer {
  readonly message = new ChatMessageBuilder();
  readonly logprobs: TokenLogprobs[] = [];
  readonly #parser: AnswerParser;
  #last: GenerationChunk | null = null;

  constructor(parsing: MessageParserOptions) {
    this.#parser = new AnswerParser(parsing);
  }

  get reasoningTokens(): number {
    return this.#parser.reasoningTokens;
  }

  get last(): FinishedChunk {
    return requireFinished(this.#last);
  }

  append(chunk: GenerationChunk): void {
    this.message.append(this.#parser.take(chunk));
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
    warnings,
  }: {
    readonly created: number;
    readonly answers: readonly ChatAnswer[];
    readonly usageOptions: UsageOptions;
    readonly warnings: readonly string[];
  },
): object {
  return {
    id: body.rid ?? answers[0]!.last.requestId,
    object: "chat.completion",
    created,
    model: body.model,
    choices: answers.map(({ message, logprobs, last }, index) => ({
      index,
      message: message.wire(),
      logprobs: wireLogprobs(body.requests[index]!.logprobs, logprobs),
      finish_reason: wireFinishReason(last.finish, message.hasCalls),
      matched_stop: message.hasCalls ? null : wireMatchedStop(last.finish),
    })),
    usage: wireUsage(
      answers.map(({ last, reasoningTokens }) => ({ chunk: last, reasoningTokens })),
      usageOptions,
    ),
    metadata: wireMetadata(warnings),
  };
}

function wireLogprobs(
  asked: LogprobOptions | undefined,
  entries: readonly TokenLogprobs[],
): object | null {
  return asked === undefined ? null : wireChatLogprobs(entries, asked.topCount ?? 0);
}
