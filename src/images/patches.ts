/**
 * A tile of pixels as the rows that a vision tower's first linear reads.
 *
 * @module
 */
import type { Pixels } from "./pixels.ts";

/** What a processor makes of 8-bit values: `(value * rescale - mean) / deviation`, by channel. */
export interface PixelScale {
  readonly rescale: number;
  readonly mean: readonly number[];
  readonly deviation: readonly number[];
}

/**
 * @param patchSide Of which both sides of the tile are multiples.
 * @param stride Elements from one patch to the next, `3 * patchSide^2` at least.
 * @returns `[patches, stride]`: patches row by row, each by channel, row and column.
 */
export function patchesOf(
  { width, height, rgb }: Pixels,
  { rescale, mean, deviation }: PixelScale,
  { patchSide, stride }: { readonly patchSide: number; readonly stride: number },
): Float32Array<ArrayBuffer> {
  const columns = width / patchSide;
  const out = new Float32Array(columns * (height / patchSide) * stride);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const patch = Math.floor(y / patchSide) * columns + Math.floor(x / patchSide);
      const inner = (y % patchSide) * patchSide + (x % patchSide);
      for (let c = 0; c < 3; c++) {
        const value = rgb[(y * width + x) * 3 + c]! * rescale;
        out[patch * stride + c * patchSide ** 2 + inner] = (value - mean[c]!) / deviation[c]!;
      }
    }
  }
  return out;
}
