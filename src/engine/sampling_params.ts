/**
 * Checks a request's sampling parameters and fills in their defaults.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import type { SamplingParams } from "../generation.ts";

/** Completion tokens of a request that does not say. */
export const DEFAULT_MAX_NEW_TOKENS = 128;
/** Below this a temperature is greedy. */
const GREEDY_TEMPERATURE = 1e-6;

/** Every parameter decided. */
export interface Sampling {
  /** `null` fills the context; `undefined` is the default, cut to what fits. */
  readonly maxNewTokens: number | null | undefined;
  /** 0 is greedy. */
  readonly temperature: number;
  readonly topP: number;
  /** Infinity keeps every token. */
  readonly topK: number;
  readonly stop: readonly string[];
  readonly stopTokenIds: ReadonlySet<number>;
  readonly ignoreEos: boolean;
  readonly skipSpecialTokens: boolean;
  readonly seed: number;
}

const isWhole = Number.isSafeInteger;

/**
 * @param vocabularySize Token ids are below it.
 * @param seed Used when the request brings none.
 * @throws {InvalidRequestError} naming the first field out of range.
 */
export function resolveSampling(
  params: SamplingParams,
  { vocabularySize, seed }: { readonly vocabularySize: number; readonly seed: number },
): Sampling {
  const refuse = (field: keyof SamplingParams, rule: string): never => {
    throw new InvalidRequestError(`${field} must be ${rule}, got ${String(params[field])}`, field);
  };
  const { maxNewTokens, temperature = 1, topP = 1, topK = -1, ignoreEos = false } = params;
  if (typeof maxNewTokens === "number" && !(isWhole(maxNewTokens) && maxNewTokens >= 0)) {
    refuse("maxNewTokens", "a whole number of at least 0");
  }
  if (!(Number.isFinite(temperature) && temperature >= 0)) {
    refuse("temperature", "a finite number of at least 0");
  }
  if (!(topP > 0 && topP <= 1)) refuse("topP", "above 0 and at most 1");
  if (!(topK === -1 || (isWhole(topK) && topK >= 1))) refuse("topK", "-1 or at least 1");
  const stop = typeof params.stop === "string" ? [params.stop] : (params.stop ?? []);
  if (stop.some((text) => typeof text !== "string" || text === "")) {
    refuse("stop", "a string or strings, none of them empty");
  }
  const stopTokenIds = new Set(params.stopTokenIds);
  for (const id of stopTokenIds) {
    if (!(isWhole(id) && id >= 0 && id < vocabularySize)) {
      refuse("stopTokenIds", `token ids below ${vocabularySize}`);
    }
  }
  const chosenSeed = params.seed ?? seed;
  if (!(isWhole(chosenSeed) && chosenSeed >= 0 && chosenSeed < 2 ** 32)) {
    refuse("seed", "a whole number from 0 to 4294967295");
  }
  return {
    maxNewTokens,
    temperature: temperature < GREEDY_TEMPERATURE || topK === 1 ? 0 : temperature,
    topP,
    topK: topK === -1 ? Number.POSITIVE_INFINITY : topK,
    stop,
    stopTokenIds,
    ignoreEos,
    skipSpecialTokens: params.skipSpecialTokens ?? true,
    seed: chosenSeed,
  };
}
