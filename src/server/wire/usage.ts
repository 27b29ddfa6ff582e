/**
 * `usage` of the endpoints under `/v1`, and when a stream tells of it.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { GenerationChunk } from "../../generation.ts";
import type { Fields } from "../../http/fields.ts";
import { IDLE_STREAM_OPTIONS } from "../fields/idle_fields.ts";

export interface StreamOptions {
  /** Whether an event at the end tells of it. */
  readonly includeUsage: boolean;
  /** Whether every event tells of what has been used so far. */
  readonly continuousUsage: boolean;
  /** Whether usage tells of cached tokens, also where the server's options do not ask for it. */
  readonly includeCachedTokens: boolean;
}

const NO_USAGE: StreamOptions = {
  includeUsage: false,
  continuousUsage: false,
  includeCachedTokens: false,
};

/** The field `stream_options`; without a stream there is nothing that it could say anything about. */
export function readStreamOptions(fields: Fields, stream: boolean): StreamOptions {
  const options = fields.object("stream_options");
  if (options === undefined) return NO_USAGE;
  options.takeIdle(IDLE_STREAM_OPTIONS);
  const includeUsage = options.boolean("include_usage") ?? false;
  const continuousUsage = options.boolean("continuous_usage_stats") ?? false;
  const includeCachedTokens = options.boolean("include_cached_tokens") ?? false;
  options.end();
  if (!stream) {
    fields.ignore("stream_options");
    return NO_USAGE;
  }
  if (continuousUsage && !includeUsage) throw needsUsage("continuous_usage_stats");
  if (includeCachedTokens && !includeUsage) throw needsUsage("include_cached_tokens");
  return { includeUsage, continuousUsage, includeCachedTokens };
}

function needsUsage(name: string): InvalidRequestError {
  return new InvalidRequestError(
    `Cannot use stream_options.${name}: include_usage is not true`,
    "stream_options",
  );
}

export interface UsageOptions {
  /** Answers to each prompt. */
  readonly samples: number;
  /** Whether to tell how much of the prompts was in the prefix cache. */
  readonly cacheReport: boolean;
  /** Whether reasoning is known when it is seen. Default false. */
  readonly countsReasoning?: boolean;
}

/** How far an answer has come. */
export interface AnswerProgress {
  /** The newest; null before the first. */
  readonly chunk: GenerationChunk | null;
  /** Of its tokens those that are reasoning. Default 0. */
  readonly reasoningTokens?: number;
}

/** @param answers All answers to one prompt in a row. */
export function wireUsage(
  answers: readonly AnswerProgress[],
  { samples, cacheReport, countsReasoning = false }: UsageOptions,
): object {
  // A prompt counts once, however many answers it has.
  const prompts = answers.filter((_, i) => i % samples === 0);
  const promptTokens = sum(prompts, ({ chunk }) => chunk?.promptTokens);
  const completionTokens = sum(answers, ({ chunk }) => chunk?.completionTokens);
  const cachedTokens = sum(prompts, ({ chunk }) => chunk?.cachedTokens);
  const imageTokens = sum(prompts, ({ chunk }) => chunk?.imageTokens);
  const details = {
    ...(cacheReport && cachedTokens > 0 && { cached_tokens: cachedTokens }),
    ...(imageTokens > 0 && { image_tokens: imageTokens }),
  };
  const reasoning = { reasoning_tokens: sum(answers, (answer) => answer.reasoningTokens) };
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
    prompt_tokens_details: Object.keys(details).length > 0 ? details : null,
    // The one name is that of servers of this kind, the other OpenAI's.
    ...reasoning,
    ...(countsReasoning && { completion_tokens_details: reasoning }),
  };
}

function sum(
  answers: readonly AnswerProgress[],
  count: (answer: AnswerProgress) => number | undefined,
): number {
  return answers.reduce((total, answer) => total + (count(answer) ?? 0), 0);
}
