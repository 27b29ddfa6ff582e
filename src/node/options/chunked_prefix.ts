/**
 * The variable that says from how many cached tokens on prefixes are taken in chunks.
 *
 * @module
 */
import type { Environment } from "../hub/hub_settings.ts";
import { OptionError } from "./option_parser.ts";

const VARIABLE = "SVC_CHUNKED_PREFIX_CACHE_THRESHOLD";

/**
 * Tokens; `undefined` where the variable is not set, or empty.
 *
 * @throws {OptionError} when it is anything but a whole number.
 */
export function chunkedPrefixThreshold(env: Environment): number | undefined {
  const text = env[VARIABLE]?.trim();
  if (!text) return undefined;
  const tokens = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(tokens)) return tokens;
  throw new OptionError(
    `Cannot use ${VARIABLE} ${text}: it must be a whole number of tokens, 0 or more`,
  );
}
