/**
 * Fields that ask for log-probabilities -> `LogprobOptions`.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { ModelDescription } from "../../generation.ts";
import { type Fields, outOfRange, present, requireIds, wrongType } from "../../http/fields.ts";
import { type LogprobOptions, MAX_LOGPROB_TOKENS, MAX_TOP_LOGPROBS } from "../../logprobs.ts";

/** Largest `top_logprobs` of chat requests. */
export const MAX_CHAT_TOP = 20;

export interface LogprobFieldsOptions {
  /** Prompts of the request. */
  readonly count: number;
  readonly batch: boolean;
  readonly model: ModelDescription;
}

/**
 * The fields of `/generate`: for each prompt what it asks for, or nothing. The other fields say how,
 * and nothing where `return_logprob` does not ask: clients send them with every request.
 */
export function readLogprobs(
  fields: Fields,
  options: LogprobFieldsOptions,
): readonly (LogprobOptions | undefined)[] {
  const wanted = readEach(fields, "return_logprob", options, requireBoolean);
  const start = readEach(fields, "logprob_start_len", options, integerFrom(-1));
  const top = readEach(fields, "top_logprobs_num", options, integerFrom(0, MAX_TOP_LOGPROBS));
  const ids = readTokenIds(fields, options);
  const text = fields.boolean("return_text_in_logprobs");
  return wanted.map((isWanted, i) => {
    if (isWanted !== true) return undefined;
    const promptStart = start[i] ?? -1;
    return present<LogprobOptions>({ promptStart, topCount: top[i], tokenIds: ids[i], text });
  });
}

/** `logprobs` and `top_logprobs` of chat requests. */
export function readChatLogprobs(fields: Fields): LogprobOptions | undefined {
  const wanted = fields.boolean("logprobs") ?? false;
  const topCount = fields.integer("top_logprobs", { min: 0, max: MAX_CHAT_TOP }) ?? 0;
  if (wanted) return { topCount, text: true };
  if (topCount === 0) return undefined;
  const name = "top_logprobs";
  throw new InvalidRequestError(`Cannot use ${name}: logprobs is not true`, name);
}

/** One value for all prompts or, for a batch, a list with one for each; null is none. */
function readEach<T>(
  fields: Fields,
  name: string,
  { count, batch }: LogprobFieldsOptions,
  read: (value: unknown, path: string) => T,
): readonly (T | undefined)[] {
  const value = fields.value(name);
  const path = fields.path(name);
  if (!batch || !Array.isArray(value)) {
    const shared = value === undefined ? undefined : read(value, path);
    return new Array<T | undefined>(count).fill(shared);
  }
  requireCount(value, count, path);
  return value.map((item: unknown, i) => (item === null ? undefined : read(item, `${path}[${i}]`)));
}

/** A list of ids for all prompts or, for a batch, a list of lists. */
function readTokenIds(
  fields: Fields,
  { count, batch, model: { vocabularySize } }: LogprobFieldsOptions,
): readonly (readonly number[] | undefined)[] {
  const name = "token_ids_logprob";
  const value = fields.value(name);
  const path = fields.path(name);
  const isNested = Array.isArray(value) && value.some((one) => Array.isArray(one) || one === null);
  if (!batch || !isNested) {
    const shared = value === undefined ? undefined : requireFewIds(value, path, vocabularySize);
    return new Array<readonly number[] | undefined>(count).fill(shared);
  }
  requireCount(value, count, path);
  return value.map((item: unknown, i) =>
    item === null ? undefined : requireFewIds(item, `${path}[${i}]`, vocabularySize),
  );
}

function requireFewIds(value: unknown, path: string, vocabularySize: number): readonly number[] {
  const count = Array.isArray(value) ? value.length : 0;
  if (count <= MAX_LOGPROB_TOKENS) return requireIds(value, path, vocabularySize);
  throw new InvalidRequestError(
    `${path} must have at most ${MAX_LOGPROB_TOKENS} token ids, got ${count}`,
    path,
  );
}

function requireCount(list: readonly unknown[], count: number, path: string): void {
  if (list.length === count) return;
  throw new InvalidRequestError(
    `${path} must have one item for each of the ${count} prompts, got ${list.length}`,
    path,
  );
}

function requireBoolean(value: unknown, path: string): boolean {
  if (typeof value === "boolean") return value;
  throw wrongType(path, "true or false", value);
}

function integerFrom(min: number, max?: number): (value: unknown, path: string) => number {
  return (value, path) => {
    if (!Number.isSafeInteger(value)) throw wrongType(path, "an integer", value);
    const number = value as number;
    if (number >= min && number <= (max ?? number)) return number;
    const range = max === undefined ? `at least ${min}` : `at least ${min} and at most ${max}`;
    throw outOfRange(path, range, value);
  };
}
