import { UnsupportedError } from "../../../src/errors.ts";
import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import { GRID_WORDS, type Tensor } from "../../../src/gpu/tensor.ts";
import sumBefore from "../../common/dot/sum_before.wgsl?raw";
import source from "./sort.wgsl?raw";

const kernel = new Kernel({
  name: "moe/sort",
  source: source + sumBefore,
  buffers: ["experts", "sorted_pairs", "scratch", "tiles", "grids"],
  params: ["first_pair", "pairs", "tile_size", "passes", "experts_each", "grids"],
});

const MAX_EXPERTS = 1280;
/** Barriers cost by the invocation on software adapters, so few pairs are sorted by few. */
const FORMS = {
  few: { WORKGROUP_SIZE: 64, SCAN_BLOCK: 8, DIGIT_BITS: 4 },
  many: { WORKGROUP_SIZE: 256, SCAN_BLOCK: 16, DIGIT_BITS: 3 },
} as const;
const PAIR_BYTES = 4;
/** Pairs that an invocation of the small form sorts at most, by default. */
const FEW_EACH = 16;

/** The most tiles that `pairs` pairs over `expertCount` experts can make. */
export function tileLimit(pairs: number, expertCount: number, tileSize: number): number {
  // Every expert with pairs may leave one tile short of full.
  return Math.min(pairs, Math.floor(pairs / tileSize) + expertCount);
}

export interface SortPairsOptions {
  /** `[pairs]` u32: the physical expert of each (row, slot) pair; may share a buffer with the lists */
  readonly experts: Tensor;
  /** Physical experts, at most 1280. */
  readonly expertCount: number;
  /** `[pairs]` u32: pair indices by expert, then by index */
  readonly sortedPairs: Tensor;
  /** `[pairs]` u32, overwritten */
  readonly scratch: Tensor;
  /**
   * `[1 + tileLimit(pairs, expertCount, tileSize)]` of four u32, for the smallest tiles there may be.
   * The first holds the number of tiles; then (expert, first index in `sortedPairs`, pairs, 0) for
   * every tile.
   */
  readonly tiles: Tensor;
  /** Of launches over the tiles (`GRID_WORDS` each): y becomes the number of tiles. */
  readonly grids: Tensor;
  /** Pairs up to which the form with fewer invocations is used. Default 1024. */
  readonly fewPairs?: number;
}

/**
 * Orders pairs by expert, stably, and cuts each expert's pairs in tiles.
 *
 * Binds the tensors now; the returned function records one launch over `pairs` pairs from `first`
 * on, for tiles of at most `tileSize` of them.
 *
 * @throws {UnsupportedError} for more experts than the kernel can count.
 */
export function sortPairs(
  recorder: Recorder,
  options: SortPairsOptions,
): (pairs: number, tileSize: number, first?: number) => void {
  const { experts, expertCount, sortedPairs, scratch, tiles, grids } = options;
  const { fewPairs = FEW_EACH * FORMS.few.WORKGROUP_SIZE } = options;
  if (expertCount > MAX_EXPERTS) throw new UnsupportedError(`${expertCount} physical experts`);
  const bits = Math.max(Math.ceil(Math.log2(expertCount)), 1);
  const bind = (form: (typeof FORMS)[keyof typeof FORMS]) =>
    kernel.bind(
      recorder,
      { experts, sorted_pairs: sortedPairs, scratch, tiles, grids },
      {
        constants: form,
        params: {
          passes: Math.ceil(bits / form.DIGIT_BITS),
          experts_each: Math.ceil(expertCount / form.WORKGROUP_SIZE),
          grids: grids.size / (4 * GRID_WORDS),
        },
        cost: ({ param }) => ({ bytes: 8 * param("pairs"), flops: 0 }),
      },
    );
  const few = bind(FORMS.few);
  // A pipeline that the list has no room for is not compiled.
  const many = sortedPairs.size / PAIR_BYTES > fewPairs ? bind(FORMS.many) : few;
  return (pairs, tileSize, first = 0) => {
    if (pairs === 0) return;
    const bound = pairs <= fewPairs ? few : many;
    bound.set("first_pair", first);
    bound.set("pairs", pairs);
    bound.set("tile_size", tileSize);
    bound.record(1);
  };
}
