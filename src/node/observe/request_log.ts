/**
 * A log line for each request when it ends.
 *
 * Prompts and completions are personal: they are written only by those levels that say so.
 *
 * @module
 */
import { EngineError } from "../../errors.ts";
import type { GenerationChunk, GenerationRequest } from "../../generation.ts";
import { jsonPieces } from "../../http/json_response.ts";
import type { EngineObserver, Outcome, RequestObserver } from "../../server/observe/observe.ts";
import { RequestCourse } from "../../server/observe/request_course.ts";
import type { Logger, LogLevel } from "./logger.ts";

/**
 * | level | beside ids, counts and times |
 * |---|---|
 * | 0 | nothing |
 * | 1 | sampling parameters |
 * | 2 | the beginnings of prompt and completion |
 * | 3 | all of them |
 */
export type RequestLogLevel = 0 | 1 | 2 | 3;

export interface RequestLogOptions {
  /** At which level of the log the lines are written. */
  readonly level: LogLevel;
  readonly detail: RequestLogLevel;
}

/** Characters of a prompt and of a completion at level 2. */
const BEGINNING = 2048;

/** Writes a line for each request that ends. */
export function requestLog(log: Logger, options: RequestLogOptions): EngineObserver {
  return (request) => new LoggedRequest(request, log, options);
}

class LoggedRequest implements RequestObserver {
  readonly #request: GenerationRequest;
  readonly #log: Logger;
  readonly #options: RequestLogOptions;
  readonly #course = new RequestCourse();
  #completion = "";
  #warnings: readonly string[] = [];

  constructor(request: GenerationRequest, log: Logger, options: RequestLogOptions) {
    this.#request = request;
    this.#log = log;
    this.#options = options;
  }

  chunk(chunk: GenerationChunk): void {
    this.#course.take(chunk);
    if (chunk.compilation?.warnings !== undefined) this.#warnings = chunk.compilation.warnings;
    if (this.#options.detail === 3 || this.#completion.length < this.#mostText) {
      this.#completion += chunk.text;
    }
  }

  end(outcome: Outcome): void {
    const fields = { ...this.#figures(), ...outcomeFields(outcome), ...this.#details() };
    const text = Object.entries(fields).map(([name, value]) => `${name}: ${written(value)}`);
    this.#log.event(this.#options.level, `${HEADS[outcome.type]}. ${text.join(", ")}`, {
      event: `request_${outcome.type}`,
      ...fields,
    });
  }

  #figures(): object {
    const { requestId, promptTokens, cachedTokens, completionTokens } = this.#course;
    const { forcedTokens, dataParallelRank, timeToFirstToken, throughput, seconds } = this.#course;
    return {
      rid: requestId ?? this.#request.requestId ?? null,
      ...(dataParallelRank !== undefined && { dp_rank: dataParallelRank }),
      prompt_tokens: promptTokens,
      cached_tokens: cachedTokens,
      completion_tokens: completionTokens,
      ...(forcedTokens !== undefined && { forced_tokens: forcedTokens }),
      ...(timeToFirstToken !== undefined && { ttft: milliseconds(timeToFirstToken) }),
      ...(throughput !== undefined && { tokens_per_second: Math.round(10 * throughput) / 10 }),
      e2e_latency: milliseconds(seconds),
      ...(this.#warnings.length > 0 && { warnings: this.#warnings }),
    };
  }

  #details(): object {
    const { detail } = this.#options;
    if (detail === 0) return {};
    const { sampling = {}, prompt, messages, tokens, inputEmbeds } = this.#request;
    if (detail === 1) return { sampling };
    const embeddings = inputEmbeds && `${inputEmbeds.length} embeddings`;
    const most = this.#mostText;
    const asked = prompt ?? embeddings ?? beginningOf(messages ?? tokens ?? null, most);
    return { sampling, prompt: asked.slice(0, most), completion: this.#completion.slice(0, most) };
  }

  get #mostText(): number {
    const { detail } = this.#options;
    if (detail < 2) return 0;
    return detail === 2 ? BEGINNING : Number.POSITIVE_INFINITY;
  }
}

/** The JSON of plain data, at least to so many characters: no more of it is written than that takes. */
function beginningOf(value: unknown, most: number): string {
  let text = "";
  for (const piece of jsonPieces(value)) {
    text += piece;
    if (text.length >= most) break;
  }
  return text;
}

const HEADS: Readonly<Record<Outcome["type"], string>> = {
  finished: "Finish request",
  aborted: "Abort request",
  failed: "Fail request",
};

function outcomeFields(outcome: Outcome): object {
  switch (outcome.type) {
    case "finished":
      return { finish: outcome.finish.type };
    case "aborted":
      return { reason: outcome.message };
    case "failed":
      // The messages of other errors are not made for logs that many read.
      return { error: outcome.error instanceof EngineError ? outcome.error.code : "internal" };
    default:
      return outcome satisfies never;
  }
}

/** Seconds with three digits behind the point. */
function milliseconds(seconds: number): number {
  return Math.round(1000 * seconds) / 1000;
}

function written(value: unknown): string {
  return typeof value === "string" && /^[\w.-]+$/.test(value) ? value : JSON.stringify(value);
}
