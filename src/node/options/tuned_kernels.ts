/**
 * The variable that says whether matrix kernels are tuned for the adapter.
 *
 * @module
 */
import type { Environment } from "../hub/hub_settings.ts";
import { OptionError } from "./option_parser.ts";

const VARIABLE = "SVC_ENABLE_JIT_DEEPGEMM";

const VALUES: Readonly<Record<string, boolean>> = { 0: false, false: false, 1: true, true: true };

/**
 * `undefined` where the variable is not set, or empty.
 *
 * @throws {OptionError} when it is anything but 0, 1, false or true.
 */
export function tunedKernels(env: Environment): boolean | undefined {
  const text = env[VARIABLE]?.trim();
  if (!text) return undefined;
  const value = text.toLowerCase();
  if (Object.hasOwn(VALUES, value)) return VALUES[value];
  throw new OptionError(`Cannot use ${VARIABLE} ${text}: it must be 0 or 1`);
}
