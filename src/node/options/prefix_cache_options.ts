/**
 * `--prefix-cache-dir` and `--prefix-cache-size`: where cached prefixes are kept.
 *
 * @module
 */
import type { PrefixStoreOptions } from "../../engine/prefix/prefix_options.ts";
import { prefixFiles } from "../prefix_files.ts";
import type { StartReport } from "../serve/start_report.ts";
import { OptionError } from "./option_parser.ts";
import { ENGINE_OPTIONS, type EngineLaunchOptions } from "./options.ts";

/** @throws {OptionError} when one option makes another useless. */
export function prefixStore(
  {
    prefixCacheDir,
    prefixCacheSize,
    disableRadixCache,
  }: Pick<EngineLaunchOptions, "prefixCacheDir" | "prefixCacheSize" | "disableRadixCache">,
  report: Pick<StartReport, "warnings">,
): PrefixStoreOptions | undefined {
  const flag = (name: keyof typeof ENGINE_OPTIONS) => ENGINE_OPTIONS[name].flags[0];
  if (prefixCacheDir === undefined) {
    if (prefixCacheSize === undefined) return undefined;
    throw new OptionError(
      `Cannot use option ${flag("prefixCacheSize")} without ${flag("prefixCacheDir")}: ` +
        "it would change nothing",
    );
  }
  if (disableRadixCache) {
    throw new OptionError(
      `Cannot use option ${flag("prefixCacheDir")} together with ${flag("disableRadixCache")}: stored prefixes are read into the radix cache`,
    );
  }
  return {
    storage: prefixFiles(prefixCacheDir),
    maxBytes: prefixCacheSize,
    onProblem: (problem) => report.warnings([problem]),
  };
}
