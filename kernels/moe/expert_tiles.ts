/**
 * The grid of a kernel over routed pairs, in both of its forms.
 *
 * @module
 */
import type { BoundKernel } from "../../src/gpu/kernel.ts";
import { tileLimit } from "./sort.ts";

/**
 * Records every slab's launch over pairs, or over the tiles there may be: workgroups of tiles that
 * are not there return at once.
 */
export function recordTiles<P extends string>(options: {
  /** One launch for each slab. */
  readonly byPair: readonly BoundKernel<P>[];
  readonly byTile: readonly BoundKernel<P>[];
  /** Workgroups along the outputs. */
  readonly width: number;
  readonly slots: number;
  /** Workgroups across that a row has in `byPair`. Default `slots`. */
  readonly tilesOfRow?: number;
  readonly expertCount: number;
  readonly tileSize: number;
}): (rows: number, sorted: boolean) => void {
  const { byPair, byTile, width, slots, expertCount, tileSize } = options;
  const { tilesOfRow = slots } = options;
  return (rows, sorted) => {
    const height = sorted ? tileLimit(rows * slots, expertCount, tileSize) : rows * tilesOfRow;
    for (const bound of sorted ? byTile : byPair) bound.record(width, height);
  };
}
