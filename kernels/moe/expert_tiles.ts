/**
 * How a kernel over routed pairs is launched, by pair and by tile: its forms and its grid.
 *
 * @module
 */
import type { BoundKernel } from "../../src/gpu/kernel.ts";
import type { RowForm } from "../../src/gpu/tuning.ts";
import { type LaunchForm, launchForms } from "../linear/launch_form.ts";
import type { LinearLayout, WeightDtype } from "../linear/layout.ts";
import { tileLimit } from "./sort.ts";

/** Pairs of a tile: more would leave more of it empty, as each expert has few. */
export const PAIR_TILE = 4;

/** The forms of the launches over pairs, one at a time, and over tiles. */
export function tileForms(
  weights: LinearLayout & { readonly dtype: WeightDtype },
  options: {
    readonly tileSize: number;
    readonly forms?: readonly RowForm[] | undefined;
    readonly rowLanes?: number | undefined;
    /** Bytes of workgroup memory that the launch over pairs needs for itself. Default 0. */
    readonly pairBytes?: number;
  },
): { readonly byPair: LaunchForm; readonly byTile: LaunchForm } {
  const { tileSize, forms, rowLanes, pairBytes = 0 } = options;
  const [byPair] = launchForms(weights, { rowLanes, ownBytes: pairBytes }, forms);
  const tiled = launchForms(weights, { rowLanes }, forms);
  // Where the tuning has no form of this size, nothing is shared out.
  const alone = { tokens: tileSize, split: 1, workgroup: weights.lanes, cost: 1 };
  const byTile =
    tiled.find(({ tokens }) => tokens === tileSize) ??
    launchForms(weights, { rowLanes }, [alone])[0];
  return { byPair: byPair!, byTile: byTile! };
}

/**
 * Records every slab's launch over pairs, or over the tiles there may be: workgroups of tiles that
 * are not there return at once.
 */
export function recordTiles<P extends string>(options: {
  /** One launch for each slab. */
  readonly byPair: readonly BoundKernel<P>[];
  readonly byTile: readonly BoundKernel<P>[];
  /** Workgroups along the outputs. */
  readonly width: (sorted: boolean) => number;
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
    for (const bound of sorted ? byTile : byPair) bound.record(width(sorted), height);
  };
}
