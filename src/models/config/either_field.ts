/**
 * Fields of config.json that were renamed.
 *
 * @module
 */
import type { ConfigReader } from "../../checkpoint/config.ts";

/**
 * A number that files have under one of two names, or under both.
 *
 * @throws {CheckpointError} when they have it under neither, or the two differ.
 */
export function readEither(
  config: ConfigReader,
  [name, other]: readonly [string, string],
  range: { readonly min: number; readonly max: number },
): number {
  const second = config.integer(other, { ...range, fallback: undefined });
  if (second === undefined) return config.integer(name, range);
  if (config.integer(name, { ...range, fallback: second }) === second) return second;
  throw config.error(other, `${name} says something else`);
}
