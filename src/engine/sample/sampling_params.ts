/**
 * Checks a request's sampling parameters and fills in their defaults.
 *
 * @module
 */
import type { PenaltyStrengths } from "../../../kernels/sampling/adjust.ts";
import { InvalidRequestError } from "../../errors.ts";
import {
  areFewStops,
  MAX_LOGIT_BIASES,
  MAX_STOP_TOKENS,
  MAX_STOPS,
  STOPS_RULE,
} from "../../request_limits.ts";
import type { SamplingParams } from "../../sampling_params.ts";
import type { RowSampling } from "./sampled_row.ts";

/** Completion tokens of a request that does not say. */
export const DEFAULT_MAX_NEW_TOKENS = 128;
/** Below this a temperature is greedy. */
const GREEDY_TEMPERATURE = 1e-6;
const MAX_F32 = 3.4028234663852886e38;

/** Every parameter decided. */
export interface Sampling extends Required<RowSampling> {
  /** `null` fills the context; `undefined` is the default, cut to what fits. */
  readonly maxNewTokens: number | null | undefined;
  readonly minNewTokens: number;
  /** Of log-probabilities; greedy counts as 1. */
  readonly logprobTemperature: number;
  /** Absent when nothing is penalized. */
  readonly penalties: PenaltyStrengths | undefined;
  /** Token -> what is added to its logit. */
  readonly logitBias: ReadonlyMap<number, number>;
  readonly stop: readonly string[];
  readonly stopTokenIds: ReadonlySet<number>;
  readonly ignoreEos: boolean;
  readonly noStopTrim: boolean;
  readonly skipSpecialTokens: boolean;
  readonly shownSpecialTokens: readonly string[];
}

const isWhole = Number.isSafeInteger;

/** Refuses a field; `rule` reads after "must be". */
type Refuse = (field: keyof SamplingParams, rule: string) => never;

/**
 * @param vocabularySize Token ids are below it.
 * @param seed Used when the request brings none.
 * @throws {InvalidRequestError} naming the first field out of range.
 */
export function resolveSampling(
  params: SamplingParams,
  { vocabularySize, seed }: { readonly vocabularySize: number; readonly seed: number },
): Sampling {
  const refuse: Refuse = (field, rule) => {
    throw new InvalidRequestError(`${field} must be ${rule}, got ${shown(params[field])}`, field);
  };
  const { maxNewTokens, minNewTokens = 0, temperature = 1, topP = 1, topK = -1, minP = 0 } = params;
  if (typeof maxNewTokens === "number" && !(isWhole(maxNewTokens) && maxNewTokens >= 0)) {
    refuse("maxNewTokens", "a whole number of at least 0");
  }
  if (!(isWhole(minNewTokens) && minNewTokens >= 0)) {
    refuse("minNewTokens", "a whole number of at least 0");
  }
  if (!(Number.isFinite(temperature) && temperature >= 0)) {
    refuse("temperature", "a finite number of at least 0");
  }
  if (!(topP > 0 && topP <= 1)) refuse("topP", "above 0 and at most 1");
  if (!(topK === -1 || (isWhole(topK) && topK >= 1))) refuse("topK", "-1 or at least 1");
  if (!(minP >= 0 && minP <= 1)) refuse("minP", "from 0 to 1");
  const isToken = (id: number) => isWhole(id) && id >= 0 && id < vocabularySize;
  const chosenSeed = params.seed ?? seed;
  if (!(isWhole(chosenSeed) && chosenSeed >= 0 && chosenSeed < 2 ** 32)) {
    refuse("seed", "a whole number from 0 to 4294967295");
  }
  const isCold = temperature < GREEDY_TEMPERATURE;
  return {
    maxNewTokens,
    minNewTokens,
    temperature: isCold || topK === 1 ? 0 : temperature,
    logprobTemperature: isCold ? 1 : temperature,
    topP,
    topK: topK === -1 ? Number.POSITIVE_INFINITY : topK,
    minP,
    penalties: readPenalties(params, refuse),
    logitBias: readLogitBias(params, isToken, vocabularySize),
    stop: readStops(params, refuse),
    stopTokenIds: readStopTokens(params, isToken, { vocabularySize, refuse }),
    ignoreEos: params.ignoreEos ?? false,
    noStopTrim: params.noStopTrim ?? false,
    skipSpecialTokens: params.skipSpecialTokens ?? true,
    shownSpecialTokens: readShownTokens(params, refuse),
    seed: chosenSeed,
  };
}

/** @throws {InvalidRequestError} when more tokens are asked for at least than at most. */
export function requireFewerAtLeast({ minNewTokens }: Sampling, maxNewTokens: number): void {
  if (minNewTokens === 0 || minNewTokens < maxNewTokens) return;
  throw new InvalidRequestError(
    `minNewTokens must be 0 or below maxNewTokens (${maxNewTokens}), got ${minNewTokens}`,
    "minNewTokens",
  );
}

/** Items or characters of a value that an error shows. */
const MAX_SHOWN = 60;

/** Short, whatever the value is. */
function shown(value: unknown): string {
  if (Array.isArray(value) && value.length > MAX_SHOWN) return `a list of ${value.length}`;
  const text = String(value);
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}...`;
}

function readStops(params: SamplingParams, refuse: Refuse): readonly string[] {
  const stop = typeof params.stop === "string" ? [params.stop] : (params.stop ?? []);
  if (stop.length > MAX_STOPS) refuse("stop", STOPS_RULE);
  if (stop.some((text) => typeof text !== "string")) refuse("stop", "a string or strings");
  if (!areFewStops(stop)) refuse("stop", STOPS_RULE);
  return stop.filter((text) => text !== "");
}

function readStopTokens(
  { stopTokenIds = [] }: SamplingParams,
  isToken: (id: number) => boolean,
  { vocabularySize, refuse }: { readonly vocabularySize: number; readonly refuse: Refuse },
): ReadonlySet<number> {
  if (stopTokenIds.length > MAX_STOP_TOKENS) {
    refuse("stopTokenIds", `at most ${MAX_STOP_TOKENS} token ids`);
  }
  if (!stopTokenIds.every(isToken)) refuse("stopTokenIds", `token ids below ${vocabularySize}`);
  return new Set(stopTokenIds);
}

function readShownTokens(
  { shownSpecialTokens = [] }: SamplingParams,
  refuse: Refuse,
): readonly string[] {
  if (shownSpecialTokens.length > MAX_STOP_TOKENS) {
    refuse("shownSpecialTokens", `at most ${MAX_STOP_TOKENS} names`);
  }
  return shownSpecialTokens;
}

/** Logits are divided by it, and then by the temperature: both together stay far from infinity. */
const LEAST_REPETITION = 1e-20;

function readPenalties(params: SamplingParams, refuse: Refuse): PenaltyStrengths | undefined {
  const { repetitionPenalty = 1, frequencyPenalty = 0, presencePenalty = 0 } = params;
  if (!(repetitionPenalty >= 0 && repetitionPenalty <= 2))
    refuse("repetitionPenalty", "from 0 to 2");
  if (!(Math.abs(frequencyPenalty) <= 2)) refuse("frequencyPenalty", "from -2 to 2");
  if (!(Math.abs(presencePenalty) <= 2)) refuse("presencePenalty", "from -2 to 2");
  if (repetitionPenalty === 1 && frequencyPenalty === 0 && presencePenalty === 0) return undefined;
  return {
    repetition: Math.max(repetitionPenalty, LEAST_REPETITION),
    frequency: frequencyPenalty,
    presence: presencePenalty,
  };
}

function readLogitBias(
  { logitBias = {} }: SamplingParams,
  isToken: (id: number) => boolean,
  vocabularySize: number,
): ReadonlyMap<number, number> {
  const biases = new Map<number, number>();
  const entries = Object.entries(logitBias);
  if (entries.length > MAX_LOGIT_BIASES) {
    throw new InvalidRequestError(
      `logitBias must be at most ${MAX_LOGIT_BIASES} entries, got ${entries.length}`,
      "logitBias",
    );
  }
  for (const [key, bias] of entries) {
    const id = Number(key);
    const field = `logitBias[${key}]`;
    if (key.trim() === "" || !isToken(id)) {
      throw new InvalidRequestError(
        `logitBias must be a map of token ids below ${vocabularySize}, got ${key}`,
        "logitBias",
      );
    }
    if (!(typeof bias === "number" && Math.abs(bias) <= MAX_F32)) {
      throw new InvalidRequestError(`${field} must be a finite number, got ${bias}`, "logitBias");
    }
    if (bias !== 0) biases.set(id, bias);
  }
  return biases;
}
