/**
 * What kernels that sort pairs by expert must write.
 *
 * @module
 */
import { GRID_WORDS } from "../../../src/gpu/tensor.ts";
import type { HostArray } from "../../check.ts";

/** Of two launches, 5 and 9 workgroups wide. */
export const GRIDS = Uint32Array.of(5, 7, 1, 0, 9, 8, 1, 0);

/** `GRIDS` as high as there are tiles. */
export function countedGrids(tiles: Uint32Array): Uint32Array {
  return GRIDS.map((word, i) => (i % GRID_WORDS === 1 ? tiles[0]! : word));
}

interface TileShape {
  /** Tiles that there is room for: those that are not there keep their poison. */
  readonly limit: number;
  readonly tileSize: number;
  /** Pairs before it are left out. Default 0. */
  readonly first?: number | undefined;
}

/** The pairs of `experts` by expert, and the tiles they are cut in. */
export function sortedTiles(experts: HostArray, { limit, tileSize, first = 0 }: TileShape) {
  const tiles = new Uint32Array(4 * (1 + limit)).fill(0xdeadbeef);
  const members: number[][] = [];
  experts.forEach((expert, pair) => {
    members[expert] ??= [];
    if (pair >= first) members[expert].push(pair);
  });
  const sorted: number[] = [];
  let count = 0;
  members.forEach((list, expert) => {
    for (let done = 0; done < list.length; done += tileSize) {
      count += 1;
      const size = Math.min(tileSize, list.length - done);
      tiles.set([expert, sorted.length + done, size, 0], 4 * count);
    }
    sorted.push(...list);
  });
  tiles.set([count, 0, 0, 0]);
  return { sorted_pairs: Uint32Array.from(sorted), tiles };
}
