/**
 * Which replica of the model answers, where a server has several.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { ModelDescription } from "../../generation.ts";
import type { Fields } from "../../http/fields.ts";

/** Two names for one thing; the first is the older one. */
const NAMES = ["data_parallel_rank", "routed_dp_rank"] as const;

/** @throws {InvalidRequestError} when there is no such replica, or the names say different things. */
export function readDataParallelRank(
  fields: Fields,
  { dataParallelSize = 1 }: ModelDescription,
): number | undefined {
  const [older, newer] = NAMES.map((name) => {
    const value = fields.integer(name);
    const refuse = (problem: string) =>
      new InvalidRequestError(`Cannot use ${name}: ${name} ${problem}`, name);
    if (value !== undefined && value < 0) throw refuse("must be non-negative");
    if (value === undefined || value < dataParallelSize) return value;
    throw refuse(`must be less than dp_size: ${dataParallelSize}`);
  });
  if (older !== undefined && newer !== undefined && older !== newer) {
    const [name, other] = NAMES;
    throw new InvalidRequestError(
      `Cannot use ${other} ${newer}: ${name} is ${older}, and both name the replica`,
      other,
    );
  }
  return older ?? newer;
}
