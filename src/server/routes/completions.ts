/**
 * `POST /v1/completions`: raw prompts in, completions out, in the form of OpenAI's older endpoint.
 *
 * @module
 */
import type { GenerationChunk, GenerationEngine } from "../../generation.ts";
import { flatError } from "../../http/error_response.ts";
import { eventStream } from "../../http/event_stream.ts";
import type { PromptLogprobs } from "../../logprobs.ts";
import { type CompletionBody, readCompletionBody } from "../fields/completion_request.ts";
import { GenerationGroup, type GroupChunk } from "../generation_group.ts";
import { readBody } from "../request_body.ts";
import type { ServerContext } from "../server_context.ts";
import { wireMetadata } from "../wire/metadata.ts";
import { wireUsage } from "../wire/usage.ts";
import { wireCompletionLogprobs } from "../wire/wire_logprobs.ts";
import { asClientWrote } from "../wire/wire_names.ts";

/** @throws before the response starts, so that errors of the request have a status of their own. */
export async function handleCompletions(
  context: ServerContext,
  request: Request,
): Promise<Response> {
  const json = await readBody(context, request);
  const body = readCompletionBody(json, context);
  const created = Math.floor(Date.now() / 1000);
  const echoes = await readEchoes(body, context.engine);
  const group = await GenerationGroup.answer(context, body, request).catch((error: unknown) => {
    throw asClientWrote(error, { endpoint: "completions", body: json });
  });
  const cacheReport = context.cacheReport || body.includeCachedTokens;
  const answer = new CompletionAnswer(body, { created, echoes, cacheReport });

  if (body.stream) {
    const releaseBody = context.bodies.of(request).keep();
    return eventStream(group, {
      events: (item) => answer.events(item, group.warnings),
      last: () => answer.lastEvents(),
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

  await group.collect((item) => answer.append(item));
  return group.releasing(() => answer.toWire(group.warnings));
}

/** What each answer begins with: its prompt as text, or nothing. */
async function readEchoes(
  { echo, prompts, requests, samples }: CompletionBody,
  engine: GenerationEngine,
): Promise<readonly string[]> {
  if (!echo) return requests.map(() => "");
  const { skipSpecialTokens = true } = requests[0]!.sampling!;
  const texts = await Promise.all(
    prompts.map(({ prompt, tokens = [] }) =>
      prompt === undefined ? engine.detokenize(tokens, { skipSpecialTokens }) : prompt,
    ),
  );
  return requests.map((_, i) => texts[Math.floor(i / samples)]!);
}

/** One choice as far as it has come. */
interface Choice {
  readonly index: number;
  /** Text that has not been sent. */
  text: string;
  /** Of tokens that have not been sent. */
  logprobs: PromptLogprobs[];
  last: GenerationChunk | null;
}

interface CompletionAnswerOptions {
  readonly created: number;
  /** What each choice begins with. */
  readonly echoes: readonly string[];
  readonly cacheReport: boolean;
}

/** The choices of one request; sent piece by piece as events, or as a whole. */
class CompletionAnswer {
  readonly #body: CompletionBody;
  readonly #options: CompletionAnswerOptions;
  readonly #choices: readonly Choice[];

  constructor(body: CompletionBody, options: CompletionAnswerOptions) {
    this.#body = body;
    this.#options = options;
    this.#choices = options.echoes.map((text, index) => ({
      index,
      text,
      logprobs: [],
      last: null,
    }));
  }

  append({ index, chunk }: GroupChunk): Choice {
    const choice = this.#choices[index]!;
    choice.text += chunk.text;
    for (const entry of chunk.promptLogprobs ?? []) choice.logprobs.push(entry);
    for (const entry of chunk.logprobs ?? []) choice.logprobs.push(entry);
    choice.last = chunk;
    return choice;
  }

  /** One event once there is text of the completion; the last one tells why it ended. */
  events(item: GroupChunk, warnings: readonly string[]): readonly object[] {
    const choice = this.append(item);
    const { text, finish } = item.chunk;
    if (text === "" && finish === null) return [];
    const usage = this.#body.continuousUsage ? this.#usage() : null;
    const event = this.#event([this.#take(choice)], usage);
    if (finish === null || warnings.length === 0) return [event];
    return [{ ...event, metadata: wireMetadata(warnings) }];
  }

  lastEvents(): readonly object[] {
    this.#requireFinished();
    return this.#body.includeUsage ? [this.#event([], this.#usage())] : [];
  }

  toWire(warnings: readonly string[]): object {
    this.#requireFinished();
    const choices = this.#choices.map((choice) => this.#take(choice));
    return {
      ...this.#event(choices, this.#usage()),
      metadata: wireMetadata(warnings),
    };
  }

  /** What has not been sent yet of a choice. */
  #take(choice: Choice): object {
    const { index, text, logprobs } = choice;
    const finish = choice.last?.finish ?? null;
    const asked = this.#body.requests[index]!.logprobs;
    choice.text = "";
    choice.logprobs = [];
    return {
      index,
      text,
      logprobs: asked === undefined ? null : wireCompletionLogprobs(logprobs, asked.topCount ?? 0),
      finish_reason: finish?.type ?? null,
      matched_stop: finish?.type === "stop" ? finish.matched : null,
    };
  }

  #event(choices: readonly object[], usage: object | null): object {
    const { rid, model } = this.#body;
    const id = rid ?? this.#choices.find(({ last }) => last !== null)!.last!.requestId;
    return { id, object: "text_completion", created: this.#options.created, model, choices, usage };
  }

  #usage(): object {
    const { samples } = this.#body;
    const { cacheReport } = this.#options;
    return wireUsage(
      this.#choices.map(({ last }) => ({ chunk: last })),
      { samples, cacheReport },
    );
  }

  #requireFinished(): void {
    if (this.#choices.every(({ last }) => last?.finish)) return;
    throw new Error("Cannot answer: the engine ended a generation without a reason");
  }
}
