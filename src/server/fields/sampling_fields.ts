/**
 * Sampling fields of a request -> `SamplingParams`, each checked for its range.
 *
 * Absent fields stay absent: the engine has the documented defaults, and it tells a limit that was
 * asked for from one that was not.
 *
 * @module
 */
import { JSON_ORDERS, JSON_UNKNOWN } from "../../constraint.ts";
import type { ModelDescription } from "../../generation.ts";
import {
  type Fields,
  isObject,
  outOfRange,
  present,
  requireIds,
  requireList,
  requireString,
  wrongType,
} from "../../http/fields.ts";
import {
  areFewStops,
  MAX_LOGIT_BIASES,
  MAX_STOP_TOKENS,
  MAX_STOPS,
  STOPS_RULE,
} from "../../request_limits.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import { readAnyForm, readForm } from "./constraint_fields.ts";
import { IDLE_SAMPLING_FIELDS } from "./idle_fields.ts";
import { readSampleCount } from "./samples.ts";

/** Completion tokens of a request that does not say. */
const DEFAULT_MAX_NEW_TOKENS = 128;
const MAX_F32 = 3.4028234663852886e38;

/** What has to be known of a model. */
export type VocabularySize = Pick<ModelDescription, "vocabularySize">;

export interface SampledPrompt {
  readonly sampling: SamplingParams;
  /** Answers wanted. */
  readonly samples: number;
  /** Tokens of one chunk of a stream. */
  readonly streamInterval: number | undefined;
}

/** The object `sampling_params` of `/generate`. */
export function readSamplingParams(fields: Fields, model: VocabularySize): SampledPrompt {
  const form = readForm(fields);
  fields.takeIdle(IDLE_SAMPLING_FIELDS);
  const maxNewTokens = fields.isNull("max_new_tokens")
    ? null
    : fields.integer("max_new_tokens", { min: 0 });
  // Reading the field also marks it as known, which a null needs too.
  fields.value("max_new_tokens");
  const sampling = present<SamplingParams>({
    ...readSharedSampling(fields, model),
    ...form,
    maxNewTokens,
    minNewTokens: readMinNewTokens(fields, "min_new_tokens", maxNewTokens),
    seed: readSeed(fields, "sampling_seed"),
  });
  const samples = readSampleCount(fields);
  const streamInterval = fields.integer("stream_interval", { min: 1 });
  fields.end();
  return { sampling, samples, streamInterval };
}

/** The fields that `sampling_params` and requests under `/v1` spell the same. */
export function readSharedSampling(fields: Fields, model: VocabularySize): SamplingParams {
  // It changes the texts of tokenizers that have no fast form; every tokenizer that loads here has one.
  fields.boolean("spaces_between_special_tokens");
  return present<SamplingParams>({
    ...readDraw(fields),
    topK: readTopK(fields),
    minP: fields.number("min_p", { min: 0, max: 1 }),
    frequencyPenalty: fields.number("frequency_penalty", { min: -2, max: 2 }),
    presencePenalty: fields.number("presence_penalty", { min: -2, max: 2 }),
    repetitionPenalty: fields.number("repetition_penalty", { min: 0, max: 2 }),
    logitBias: readLogitBias(fields, model),
    stop: readStop(fields, "stop"),
    stopTokenIds: readStopTokenIds(fields, model),
    ignoreEos: fields.boolean("ignore_eos"),
    noStopTrim: fields.boolean("no_stop_trim"),
    skipSpecialTokens: fields.boolean("skip_special_tokens"),
    jsonUnknown: readName(fields, "json_unknown", JSON_UNKNOWN),
    jsonOrder: readName(fields, "json_order", JSON_ORDERS),
  });
}

/** What every interface has. */
export function readDraw(fields: Fields): Pick<SamplingParams, "temperature" | "topP"> {
  return present<SamplingParams>({
    temperature: fields.number("temperature", { min: 0 }),
    topP: fields.number("top_p", { above: 0, max: 1 }),
  });
}

/** The same of requests under `/v1`, where other servers have names of their own for some. */
export function readOpenaiSampling(fields: Fields, model: VocabularySize): SamplingParams {
  fields.alias("repetition_penalty", "repeat_penalty");
  return { ...readSharedSampling(fields, model), ...readAnyForm(fields) };
}

/**
 * The limit of a request under `/v1`, which llama.cpp's clients call `n_predict`; their -1 is null,
 * which fills the context.
 */
export function readMaxTokens(fields: Fields, name: string): number | null | undefined {
  fields.alias(name, "n_predict");
  if (fields.value("n_predict") === -1) return null;
  return fields.integer(name, { min: 1 });
}

/** Any integer is a seed; the engine's are the 32 lowest bits. */
export function readSeed(fields: Fields, name: string): number | undefined {
  const seed = fields.integer(name);
  return seed === undefined ? undefined : seed >>> 0;
}

/**
 * @param name The two kinds of requests call it differently.
 * @param maxNewTokens `null` fills the context, which only the engine can compare with.
 */
export function readMinNewTokens(
  fields: Fields,
  name: string,
  maxNewTokens: number | null = DEFAULT_MAX_NEW_TOKENS,
): number | undefined {
  const least = fields.integer(name, { min: 0 });
  if (least === undefined || least === 0 || maxNewTokens === null) return least;
  if (least < maxNewTokens) return least;
  throw outOfRange(fields.path(name), `0 or below the ${maxNewTokens} tokens allowed`, least);
}

function readName<Name extends string>(
  fields: Fields,
  field: string,
  names: readonly Name[],
): Name | undefined {
  const name = fields.string(field);
  const value = names.find((known) => known === name);
  if (name === undefined || value !== undefined) return value;
  throw outOfRange(fields.path(field), `one of ${names.join(", ")}`, name);
}

/** `{"token id": number}`. */
function readLogitBias(
  fields: Fields,
  { vocabularySize }: VocabularySize,
): Readonly<Record<number, number>> | undefined {
  const value = fields.value("logit_bias");
  if (value === undefined) return undefined;
  const path = fields.path("logit_bias");
  if (!isObject(value)) throw wrongType(path, "an object", value);
  const biases: Record<number, number> = {};
  const entries = Object.entries(value);
  if (entries.length > MAX_LOGIT_BIASES) {
    throw outOfRange(path, `an object of at most ${MAX_LOGIT_BIASES} entries`, value);
  }
  for (const [key, bias] of entries) {
    const id = /^\d{1,10}$/.test(key) ? Number(key) : vocabularySize;
    if (id >= vocabularySize) {
      throw outOfRange(path, `an object with token ids below ${vocabularySize} as names`, key);
    }
    const at = `${path}.${key}`;
    if (typeof bias !== "number") throw wrongType(at, "a number", bias);
    if (!(Math.abs(bias) <= MAX_F32)) throw outOfRange(at, "a finite 32-bit number", bias);
    biases[id] = bias;
  }
  return biases;
}

export function readTopK(fields: Fields): number | undefined {
  const topK = fields.integer("top_k");
  if (topK === undefined || topK === -1 || topK >= 1) return topK;
  throw outOfRange(fields.path("top_k"), "-1 or at least 1", topK);
}

/** A stop string or a list of them. */
export function readStop(fields: Fields, name: string): string | readonly string[] | undefined {
  const value = fields.value(name);
  if (value === undefined) return undefined;
  const path = fields.path(name);
  const isList = Array.isArray(value);
  if (isList && value.length > MAX_STOPS) throw outOfRange(path, STOPS_RULE, value);
  const stops = isList
    ? value.map((item, i) => requireString(item, `${path}[${i}]`))
    : [requireString(value, path)];
  if (!areFewStops(stops)) throw outOfRange(path, STOPS_RULE, value);
  return isList ? stops : stops[0];
}

function readStopTokenIds(
  fields: Fields,
  { vocabularySize }: VocabularySize,
): readonly number[] | undefined {
  const value = fields.value("stop_token_ids");
  if (value === undefined) return undefined;
  const path = fields.path("stop_token_ids");
  if (requireList(value, path).length > MAX_STOP_TOKENS) {
    throw outOfRange(path, `at most ${MAX_STOP_TOKENS} token ids`, value);
  }
  return requireIds(value, path, vocabularySize);
}
