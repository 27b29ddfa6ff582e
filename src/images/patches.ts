/**
 * Pixels as the rows that a vision tower's first linear reads.
 *
 * @module
 */
import { turns } from "../turns.ts";
import type { Pixels } from "./pixels.ts";

/** What a processor makes of 8-bit values: `(value * rescale - mean) / deviation`, by channel. */
export interface PixelScale {
  readonly rescale: number;
  readonly mean: readonly number[];
  readonly deviation: readonly number[];
}

/** Patches of a picture. */
export interface PatchGrid {
  readonly rows: number;
  readonly columns: number;
}

export interface PatchLayout {
  readonly patchSide: number;
  /** How often a patch stands in its row, as the frames of a film would. Default 1. */
  readonly frames?: number;
  /** The patches in the order of their rows. Default: row by row. */
  readonly order?: Uint32Array;
}

/** What a vision tower is shown at once. */
export interface TowerPicture {
  /** `[patches, patchStride]`: each by channel, frame, row and column, normalized */
  readonly patches: Float32Array<ArrayBuffer>;
  readonly grid: PatchGrid;
}

/** How patches are made: plain data. */
export interface PatchRecipe {
  readonly scale: PixelScale;
  readonly layout: PatchLayout;
}

/** Elements from one patch to the next: kernels read four at once. */
export const patchStride = ({
  patchSide,
  frames = 1,
}: Pick<PatchLayout, "patchSide" | "frames">): number =>
  Math.ceil((3 * frames * patchSide ** 2) / 4) * 4;

/**
 * In slices, between which other work has its turns. Pixels behind the last whole patch of a side are
 * left out.
 */
export async function patchesOf(
  { width, height, rgb }: Pixels,
  { scale, layout }: PatchRecipe,
): Promise<TowerPicture> {
  const { rescale, mean, deviation } = scale;
  const { patchSide: side, frames = 1, order } = layout;
  const grid = { rows: Math.floor(height / side), columns: Math.floor(width / side) };
  const count = grid.rows * grid.columns;
  const stride = patchStride({ patchSide: side, frames });
  const area = side ** 2;
  const out = new Float32Array(count * stride);
  for (let i = 0; i < count; i++) {
    const patch = order?.[i] ?? i;
    const top = Math.floor(patch / grid.columns) * side;
    const left = (patch % grid.columns) * side;
    if (turns.isDue) await turns.take();
    for (let inner = 0; inner < area; inner++) {
      const from = ((top + Math.floor(inner / side)) * width + left + (inner % side)) * 3;
      for (let c = 0; c < 3; c++) {
        const value = (rgb[from + c]! * rescale - mean[c]!) / deviation[c]!;
        const to = i * stride + c * frames * area + inner;
        for (let frame = 0; frame < frames; frame++) out[to + frame * area] = value;
      }
    }
  }
  return { patches: out, grid };
}
