/**
 * What ranks cannot share: every rank then holds it and computes it whole.
 *
 * A matrix is cut only where whole heads, experts, blocks of scales and segments of sums are left,
 * so that any number of ranks has the bits of one. Some models have too few of them for so many
 * ranks: the embedded one's `o_proj` has 128 columns, which is one block.
 *
 * @module
 */
import { type Communicator, ONE_RANK, type RankOf } from "../../parallel/communicator.ts";

/** One thing that every rank has whole. */
export interface Unshared {
  /** A module's name, "model.layers.0.mlp". */
  readonly name: string;
  readonly why: string;
}

/** Collects them while a model is made. */
export class UnsharedParts {
  readonly #parts = new Map<string, string>();

  add(name: string, why: string): void {
    this.#parts.set(name, why);
  }

  get all(): readonly Unshared[] {
    return Array.from(this.#parts, ([name, why]) => ({ name, why }));
  }
}

/** Why so many ranks cannot have the same number of something each; undefined where they can. */
export function countProblem(
  { size }: Pick<RankOf, "size">,
  { count, dimension }: { readonly count: number; readonly dimension: string },
): string | undefined {
  if (count % size === 0) return undefined;
  return `its ${count} ${dimension} cannot be shared out evenly`;
}

/**
 * The ranks that share something: all of the group, or where a problem forbids it this one alone,
 * which is noted.
 */
export function ranksFor(
  {
    communicator,
    unshared,
  }: { readonly communicator: Communicator; readonly unshared?: UnsharedParts | undefined },
  { name, problem }: { readonly name: string; readonly problem: string | undefined },
): Communicator {
  if (communicator.size === 1 || problem === undefined) return communicator;
  unshared?.add(name, problem);
  return ONE_RANK;
}
