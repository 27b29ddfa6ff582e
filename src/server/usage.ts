/**
 * `usage` of the endpoints under `/v1`, and when a stream tells of it.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import type { GenerationChunk } from "../generation.ts";
import type { Fields } from "../http/fields.ts";
import { UNSUPPORTED_STREAM_OPTIONS } from "./unsupported_fields.ts";

export interface StreamOptions {
  /** Whether an event at the end tells of it. */
  readonly includeUsage: boolean;
  /** Whether every event tells of what has been used so far. */
  readonly continuousUsage: boolean;
}

/** The field `stream_options`. */
export function readStreamOptions(fields: Fields, stream: boolean): StreamOptions {
  const options = fields.object("stream_options");
  if (options === undefined) return { includeUsage: false, continuousUsage: false };
  if (!stream) {
    throw new InvalidRequestError(
      "stream_options can only be given when stream is true",
      "stream_options",
    );
  }
  options.refuse(UNSUPPORTED_STREAM_OPTIONS);
  const includeUsage = options.boolean("include_usage") ?? false;
  const continuousUsage = options.boolean("continuous_usage_stats") ?? false;
  options.end();
  if (continuousUsage && !includeUsage) {
    throw new InvalidRequestError(
      "stream_options.continuous_usage_stats can only be given when include_usage is true",
      "stream_options",
    );
  }
  return { includeUsage, continuousUsage };
}

export interface UsageOptions {
  /** Answers to each prompt. */
  readonly samples: number;
  /** Whether to tell how much of the prompts was in the prefix cache. */
  readonly cacheReport: boolean;
}

/**
 * @param newest The newest chunk of each answer, all answers to one prompt in a row; null before
 * the first.
 */
export function wireUsage(
  newest: readonly (GenerationChunk | null)[],
  { samples, cacheReport }: UsageOptions,
): object {
  // A prompt counts once, however many answers it has.
  const prompts = newest.filter((_, i) => i % samples === 0);
  const promptTokens = sum(prompts, (chunk) => chunk.promptTokens);
  const completionTokens = sum(newest, (chunk) => chunk.completionTokens);
  const cachedTokens = sum(prompts, (chunk) => chunk.cachedTokens);
  return {
    prompt_tokens: promptTokens,
    total_tokens: promptTokens + completionTokens,
    completion_tokens: completionTokens,
    prompt_tokens_details: cacheReport && cachedTokens > 0 ? { cached_tokens: cachedTokens } : null,
    reasoning_tokens: 0,
  };
}

function sum(
  chunks: readonly (GenerationChunk | null)[],
  count: (chunk: GenerationChunk) => number,
): number {
  return chunks.reduce((total, chunk) => total + (chunk === null ? 0 : count(chunk)), 0);
}
