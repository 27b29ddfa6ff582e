/**
 * Batch sizes for which the launches of a decode step are kept.
 *
 * What a captured graph is to CUDA, a recorded list of launches is here: a step of generated rows is
 * filled up with rows of padding to the smallest size that has room, and its list replayed.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";

/** Sizes where none are given: lists cost next to nothing, padding costs rows. */
const RUNS = [
  { last: 8, distance: 1 },
  { last: 32, distance: 2 },
  { last: 64, distance: 8 },
  { last: 160, distance: 16 },
] as const;

export interface DecodeBucketOptions {
  /** Sizes, in any order; false keeps no list. */
  readonly decodeBuckets?: readonly number[] | false | undefined;
  /** The largest. Default: the largest given, else 160. */
  readonly maxDecodeBucket?: number | undefined;
}

/**
 * @returns Sizes in ascending order.
 * @throws {InvalidRequestError} naming the option that is out of range.
 */
export function resolveBuckets(options: DecodeBucketOptions): readonly number[] {
  const { decodeBuckets, maxDecodeBucket = Number.POSITIVE_INFINITY } = options;
  const isSize = (value: number) => Number.isSafeInteger(value) && value > 0;
  if (options.maxDecodeBucket !== undefined && !isSize(maxDecodeBucket)) {
    const problem = `Cannot use maxDecodeBucket ${maxDecodeBucket}: it must be a whole number of at least 1`;
    throw new InvalidRequestError(problem, "maxDecodeBucket");
  }
  if (decodeBuckets === false && options.maxDecodeBucket === undefined) return [];
  if (decodeBuckets === false) {
    const problem = "Cannot use maxDecodeBucket: decodeBuckets is false";
    throw new InvalidRequestError(problem, "maxDecodeBucket");
  }
  const sizes = decodeBuckets ?? defaultSizes(maxDecodeBucket);
  const wrong = sizes.find((size) => !isSize(size));
  if (wrong !== undefined || sizes.length === 0) {
    const problem = `Cannot use decodeBuckets [${sizes}]: they must be whole numbers of at least 1`;
    throw new InvalidRequestError(problem, "decodeBuckets");
  }
  const kept = [...new Set(sizes)].filter((size) => size <= maxDecodeBucket);
  if (kept.length > 0) return kept.sort((a, b) => a - b);
  const problem = `Cannot use maxDecodeBucket ${maxDecodeBucket}: every size of the list is larger`;
  throw new InvalidRequestError(problem, "maxDecodeBucket");
}

/** Up to a maximum that is larger than the last run, its distance goes on. */
function defaultSizes(most: number): number[] {
  const sizes: number[] = [];
  const end = Number.isFinite(most) ? most : RUNS.at(-1)!.last;
  for (let size = 1; size <= end; ) {
    sizes.push(size);
    size += (RUNS.find(({ last }) => size < last) ?? RUNS.at(-1)!).distance;
  }
  if (sizes.at(-1) !== end) sizes.push(end);
  return sizes;
}
