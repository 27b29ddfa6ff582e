/**
 * Variables that choose how an engine computes: whether matrix kernels are tuned for the adapter, and
 * from how many cached tokens on prefixes are taken in chunks.
 *
 * @module
 */
import type { Environment } from "../hub/hub_settings.ts";
import { OptionError } from "./option_parser.ts";

const TUNED_KERNELS = "SVC_ENABLE_JIT_DEEPGEMM";
const CHUNKED_PREFIX_THRESHOLD = "SVC_CHUNKED_PREFIX_CACHE_THRESHOLD";

const VALUES: Readonly<Record<string, boolean>> = { 0: false, false: false, 1: true, true: true };

/**
 * `undefined` where the variable is not set, or empty.
 *
 * @throws {OptionError} when it is anything but 0, 1, false or true.
 */
export function tunedKernels(env: Environment): boolean | undefined {
  const text = env[TUNED_KERNELS]?.trim();
  if (!text) return undefined;
  const value = text.toLowerCase();
  if (Object.hasOwn(VALUES, value)) return VALUES[value];
  throw new OptionError(`Cannot use ${TUNED_KERNELS} ${text}: it must be 0 or 1`);
}

/**
 * Tokens; `undefined` where the variable is not set, or empty.
 *
 * @throws {OptionError} when it is anything but a whole number.
 */
export function chunkedPrefixThreshold(env: Environment): number | undefined {
  const text = env[CHUNKED_PREFIX_THRESHOLD]?.trim();
  if (!text) return undefined;
  const tokens = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(tokens)) return tokens;
  throw new OptionError(
    `Cannot use ${CHUNKED_PREFIX_THRESHOLD} ${text}: it must be a whole number of tokens, 0 or more`,
  );
}
