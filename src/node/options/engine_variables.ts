/**
 * Variables that choose how an engine computes: whether matrix kernels are tuned for the adapter, from
 * how many cached tokens on prefixes are taken in chunks, and how many prompts' pages travel at once.
 *
 * @module
 */
import type { Environment } from "../hub/hub_settings.ts";
import { OptionError } from "./option_parser.ts";

const TUNED_KERNELS = "SVC_ENABLE_JIT_DEEPGEMM";
const TRANSFER_WORKERS = "SVC_MOONCAKE_TRANS_THREAD";
const MOST_TRANSFER_WORKERS = 1024;
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

/**
 * Prompts whose pages are on their way at once; `undefined` where the variable is not set, or empty.
 *
 * @throws {OptionError} when it is anything but a whole number from 1 on.
 */
export function transferWorkers(env: Environment): number | undefined {
  const text = env[TRANSFER_WORKERS]?.trim();
  if (!text) return undefined;
  const count = /^\d+$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= MOST_TRANSFER_WORKERS) return count;
  throw new OptionError(
    `Cannot use ${TRANSFER_WORKERS} ${text}: it must be a whole number from 1 to ${MOST_TRANSFER_WORKERS}`,
  );
}

/**
 * What the log says of that variable where it changes nothing.
 *
 * @throws {OptionError} as `transferWorkers`.
 */
export function idleTransferWorkers(env: Environment, mode: string): readonly string[] {
  if (transferWorkers(env) === undefined || mode === "prefill") return [];
  const why = "prefill servers say how many prompts have pages on their way";
  return [`${TRANSFER_WORKERS} changes nothing here: ${why}`];
}
