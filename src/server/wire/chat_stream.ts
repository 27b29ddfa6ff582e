/**
 * The events of a streamed chat: role and deltas of each choice as they come, then the finish of
 * every choice, then usage when asked for.
 *
 * @module
 */
import type { FinishReason, GenerationChunk } from "../../generation.ts";
import type { TokenLogprobs } from "../../logprobs.ts";
import type { ChatBody } from "../fields/chat_request.ts";
import type { GroupChunk } from "../generation_group.ts";
import { AnswerParser } from "./answer_parser.ts";
import {
  type ChatDelta,
  EMPTY_DELTA,
  requireFinished,
  wireDelta,
  wireFinishReason,
  wireMatchedStop,
} from "./chat_message.ts";
import { JsonFrame } from "./json_frame.ts";
import { wireMetadata } from "./metadata.ts";
import { type UsageOptions, wireUsage } from "./usage.ts";
import { wireChatLogprobs } from "./wire_logprobs.ts";

/** One choice of a stream as far as it has come. */
interface StreamedChoice {
  readonly index: number;
  readonly parser: AnswerParser;
  hasCalls: boolean;
  /** Of tokens whose text is still held back. */
  logprobs: TokenLogprobs[];
  last: GenerationChunk | null;
  /** What stands around its texts. */
  readonly frames: { [field in TextField]?: JsonFrame };
}

/** Fields of a delta that are a piece of text. */
const TEXT_FIELDS = ["content", "reasoning_content"] as const;
type TextField = (typeof TEXT_FIELDS)[number];

export interface ChatStreamOptions {
  /** Unix time in seconds. */
  readonly created: number;
  readonly usageOptions: UsageOptions;
}

export class ChatStream {
  readonly #body: ChatBody;
  readonly #created: number;
  readonly #usageOptions: UsageOptions;
  readonly #choices: readonly StreamedChoice[];

  constructor(body: ChatBody, { created, usageOptions }: ChatStreamOptions) {
    this.#body = body;
    this.#created = created;
    this.#usageOptions = usageOptions;
    this.#choices = body.requests.map((_, index) => ({
      index,
      parser: new AnswerParser(body.parsing),
      hasCalls: false,
      logprobs: [],
      last: null,
      frames: {},
    }));
  }

  events({ index, chunk }: GroupChunk): readonly object[] {
    const choice = this.#choices[index]!;
    const isFirst = choice.last === null;
    choice.last = chunk;
    for (const entry of chunk.logprobs ?? []) choice.logprobs.push(entry);
    const deltas = takeDeltas(choice, chunk);
    const text = isFirst ? undefined : this.#textAlone(choice, deltas);
    if (text !== undefined) return [text];
    // Log-probabilities go with content where there is some.
    const carrier = deltas.find(({ content }) => content !== null) ?? deltas[0];
    const events = deltas.map((delta) =>
      this.#delta(choice, delta, {
        logprobs: delta === carrier ? this.#takeLogprobs(choice) : null,
      }),
    );
    if (!isFirst) return events;
    return [this.#delta(choice, { ...EMPTY_DELTA, role: "assistant", content: "" }), ...events];
  }

  /** The event of a piece of text and nothing else, which most chunks are. */
  #textAlone(choice: StreamedChoice, [delta, ...others]: readonly ChatDelta[]): object | undefined {
    const isAlone = others.length === 0 && choice.logprobs.length === 0;
    if (delta === undefined || !isAlone || this.#body.continuousUsage) return undefined;
    const field = TEXT_FIELDS.find((name) => delta[name] !== null);
    if (field === undefined) return undefined;
    choice.frames[field] ??= new JsonFrame((text) =>
      this.#delta(choice, { ...EMPTY_DELTA, [field]: text }),
    );
    return choice.frames[field].write(delta[field]!);
  }

  /** @param warnings What was ignored of the request; the ends of its choices tell it. */
  lastEvents(warnings: readonly string[] = []): readonly object[] {
    const ends = this.#choices.map(({ last }) => requireFinished(last));
    const metadata = warnings.length === 0 ? {} : { metadata: wireMetadata(warnings) };
    const events = this.#choices.map((choice, i) => {
      const end = { logprobs: this.#takeLogprobs(choice), finish: ends[i]!.finish };
      return { ...this.#delta(choice, EMPTY_DELTA, end), ...metadata };
    });
    if (this.#body.includeUsage) {
      events.push(this.#event(ends[0]!, [], this.#usage()));
    }
    return events;
  }

  #delta(
    { index, last, hasCalls }: StreamedChoice,
    delta: ChatDelta,
    {
      logprobs = null,
      finish = null,
    }: { readonly logprobs?: object | null; readonly finish?: FinishReason | null } = {},
  ): object {
    const choice = {
      index,
      delta,
      logprobs,
      finish_reason: finish === null ? null : wireFinishReason(finish, hasCalls),
      matched_stop: finish === null ? null : wireMatchedStop(finish),
    };
    const usage = this.#body.continuousUsage ? this.#usage() : null;
    return this.#event(last!, [choice], usage);
  }

  /** The entries that no event has carried yet; every token is told about once. */
  #takeLogprobs(choice: StreamedChoice): object | null {
    const entries = choice.logprobs;
    choice.logprobs = [];
    const { topCount = 0 } = this.#body.requests[choice.index]!.logprobs ?? {};
    return entries.length === 0 ? null : wireChatLogprobs(entries, topCount);
  }

  #usage(): object {
    return wireUsage(
      this.#choices.map(({ last, parser }) => ({
        chunk: last,
        reasoningTokens: parser.reasoningTokens,
      })),
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

/** What a chunk lets the client know. */
function takeDeltas(choice: StreamedChoice, chunk: GenerationChunk): ChatDelta[] {
  const told = choice.parser.take(chunk);
  choice.hasCalls ||= told.some(({ type }) => type === "call");
  return told.map(wireDelta).filter((delta) => delta !== undefined);
}
