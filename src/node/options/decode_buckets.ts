/**
 * `--cuda-graph-bs` and `--disable-cuda-graph`: which decode steps have their launches kept.
 *
 * @module
 */
import { OptionError } from "./option_parser.ts";
import { ENGINE_OPTIONS, type EngineLaunchOptions } from "./options.ts";

/** @throws {OptionError} when sizes are given for lists that are not to be kept. */
export function decodeBuckets(options: EngineLaunchOptions): readonly number[] | false | undefined {
  const { disableCudaGraph, decodeBuckets: sizes, maxDecodeBucket } = options;
  if (!disableCudaGraph) return sizes;
  if (sizes === undefined && maxDecodeBucket === undefined) return false;
  const { flags } = ENGINE_OPTIONS[sizes === undefined ? "maxDecodeBucket" : "decodeBuckets"];
  throw new OptionError(
    `Cannot use option ${flags[0]} together with --disable-cuda-graph: no sizes are kept`,
  );
}
