/**
 * What one rank has of something that is shared out evenly.
 *
 * @module
 */
import { UnsupportedError } from "../errors.ts";
import type { RankOf } from "./communicator.ts";

/** Something of a model that ranks share. */
export interface Shared {
  /** Tensors that are cut, for messages: "self_attn.o_proj". */
  readonly tensor: string;
  /** What there is `count` of: "heads". */
  readonly dimension: string;
  readonly count: number;
}

/**
 * How many of `count` each rank has.
 *
 * @throws {UnsupportedError} naming the tensor, the dimension and the ranks, when one would be cut.
 */
export function shareOf({ size }: Pick<RankOf, "size">, shared: Shared): number {
  const { tensor, dimension, count } = shared;
  if (count % size === 0) return count / size;
  throw new UnsupportedError(
    `${tensor} on ${size} ranks`,
    `its ${count} ${dimension} cannot be shared out evenly`,
  );
}
