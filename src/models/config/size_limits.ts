/**
 * How large the numbers of a config.json may be: what a model is made of is counted in them before
 * its files show that they hold as much.
 *
 * @module
 */
import type { ConfigReader, NumberOptions } from "../../checkpoint/config.ts";

/** Layers of a model; the deepest published ones have under 200. */
export const MAX_LAYERS = 1024;

/** Routed experts of all layers together; the largest published models have under 25,000. */
export const MAX_ROUTED_EXPERTS = 65_536;

/** Of a width, a number of heads, a vocabulary: products of three of them are exact enough. */
export const MAX_SIZE = 2 ** 24;

/** Positions, stretched ones included. */
export const MAX_POSITIONS = 2 ** 30;

/** A field with a width or a number of parts. */
export function readSize<F = never>(
  config: ConfigReader,
  field: string,
  options: NumberOptions<F> = {},
): number | F {
  return config.integer(field, { min: 1, max: MAX_SIZE, ...options });
}

/** `num_hidden_layers` */
export function readLayers(config: ConfigReader): number {
  return config.integer("num_hidden_layers", { min: 1, max: MAX_LAYERS });
}

/** `max_position_embeddings`: a sequence has one token of a prompt and one of an answer at least. */
export function readPositions(config: ConfigReader): number {
  return config.integer("max_position_embeddings", { min: 2, max: MAX_POSITIONS });
}

/** @throws {CheckpointError} when a factor makes the positions more than any model has. */
export function checkPositions(config: ConfigReader, positions: number): void {
  if (positions <= MAX_POSITIONS) return;
  const problem = `it makes more than ${MAX_POSITIONS} positions of max_position_embeddings`;
  throw config.error("factor", problem);
}

/** @throws {CheckpointError} when the layers together have more experts than any model has. */
export function checkExperts(
  config: ConfigReader,
  { layers, routed }: { readonly layers: number; readonly routed: number },
): void {
  if (layers * routed <= MAX_ROUTED_EXPERTS) return;
  const problem = `with ${routed} experts in each, more than ${MAX_ROUTED_EXPERTS} in all`;
  throw config.error("num_hidden_layers", `it is ${layers}, ${problem}`);
}
