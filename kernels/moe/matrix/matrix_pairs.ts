/**
 * How kernels of class mma128 over routed pairs are launched: what they have in common.
 *
 * @module
 */
import type { BoundKernel } from "../../../src/gpu/kernel.ts";
import { rowsOf, type StepArrays } from "../../../src/gpu/launch_cost.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { type MatrixTiles, TILE_ROWS, type TileRows } from "../../linear/matrix/matrix_tiles.ts";
import type { ExpertSlab, PlacedExperts } from "../../linear/weights/layout.ts";
import type { TileGrids } from "../experts/expert_tiles.ts";
import { tileLimit } from "../route/sort.ts";

/** The work list, and what the experts of this class need. */
export interface MatrixExpertOptions {
  /** A multiple of 4. */
  readonly xStride: number;
  /** Experts of a row: pair `row * slots + slot` is one choice of one row. */
  readonly slots: number;
  /** `[rows * slots]` u32: pairs in the order of their experts */
  readonly sortedPairs: Tensor;
  /** vec4u: `(tiles, 0, 0, 0)`, then `(expert, first index in sortedPairs, pairs, 0)` of each tile */
  readonly tileList: Tensor;
  readonly weights: PlacedExperts;
  readonly tiles: MatrixTiles;
  /** `[rows * slots, outStride]` f32; not the same buffer as the input */
  readonly out: Tensor;
  readonly outStride: number;
  /** Pairs of an expert in the largest step, on average. Default: any number. */
  readonly mostPairs?: number;
  /** Default: launches as high as there may be tiles, whose workgroups return at once without one. */
  readonly grids?: TileGrids;
}

/** Records the launches over the pairs of so many rows, in tiles of so many pairs at most. */
export type RecordPairs = (rows: number, tileRows: TileRows) => void;

/** The size of tiles for so many pairs of an expert, on average. */
export function pairTile(pairsOfExpert: number): TileRows {
  const [few, many] = TILE_ROWS;
  return pairsOfExpert > few ? many : few;
}

/** Binds a kernel for each slab and size of tiles that there may be. */
export function recordPairTiles<P extends string>(
  options: MatrixExpertOptions,
  /** Workgroups along the outputs. */
  width: (tileRows: TileRows) => number,
  bind: (slab: ExpertSlab, tileRows: TileRows) => BoundKernel<P>,
): RecordPairs {
  const { weights, slots, grids, mostPairs = Number.POSITIVE_INFINITY } = options;
  const sizes = TILE_ROWS.filter((tileRows) => tileRows <= pairTile(mostPairs));
  const bound = new Map(
    sizes.map((tileRows) => [tileRows, weights.slabs.map((slab) => bind(slab, tileRows))]),
  );
  const own = new Map(sizes.map((tileRows) => [tileRows, grids?.take(width(tileRows))]));
  return (rows, tileRows) => {
    const height = tileLimit(rows * slots, weights.expertCount, tileRows);
    const grid = own.get(tileRows);
    for (const kernel of bound.get(tileRows)!) {
      if (grid === undefined) kernel.record(width(tileRows), height);
      else kernel.recordIndirect(grid, width(tileRows), height);
    }
  };
}

/** Pairs of a step that are of this class. */
export function matrixPairs(
  step: StepArrays,
  { slots, tiles }: Pick<MatrixExpertOptions, "slots" | "tiles">,
): number {
  return (rowsOf(step) - (tiles.decode ? 0 : step.decodeRows)) * slots;
}
