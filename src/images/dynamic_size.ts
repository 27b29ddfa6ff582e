/**
 * A picture as Qwen2.5-VL sees it: in the size that it has, near enough, and its patches window by
 * window.
 *
 * Source: Bai et al., "Qwen2.5-VL Technical Report" (2025).
 *
 * @module
 */
import type { PatchGrid } from "./patches.ts";
import type { ImageSize } from "./pixels.ts";
import { roundHalfEven } from "./rounding.ts";

export interface SizeRule {
  /** Of which both sides are multiples. */
  readonly factor: number;
  readonly minPixels: number;
  readonly maxPixels: number;
}

/** The size that a picture is brought to. */
export function dynamicSize(
  { width, height }: ImageSize,
  { factor, minPixels, maxPixels }: SizeRule,
): ImageSize {
  const nearest = (side: number) => roundHalfEven(side / factor) * factor;
  const pixels = nearest(width) * nearest(height);
  if (pixels > maxPixels) {
    const shrink = Math.sqrt((width * height) / maxPixels);
    const below = (side: number) => Math.max(factor, Math.floor(side / shrink / factor) * factor);
    return { width: below(width), height: below(height) };
  }
  if (pixels < minPixels) {
    const grow = Math.sqrt(minPixels / (width * height));
    const above = (side: number) => Math.ceil((side * grow) / factor) * factor;
    return { width: above(width), height: above(height) };
  }
  return { width: nearest(width), height: nearest(height) };
}

/** Units of a picture, each of `merge` x `merge` patches, in the order in which a tower has them. */
export interface WindowOrder {
  /** By place: which unit it is, of those row by row. */
  readonly units: Uint32Array;
  /** Units of each window, in order. */
  readonly windows: readonly number[];
}

/** Windows row by row, and in each its units row by row; those at the edges are smaller. */
export function windowOrder({ rows, columns }: PatchGrid, window: number): WindowOrder {
  const units = new Uint32Array(rows * columns);
  const windows: number[] = [];
  let place = 0;
  for (let top = 0; top < rows; top += window) {
    for (let left = 0; left < columns; left += window) {
      const bottom = Math.min(top + window, rows);
      const right = Math.min(left + window, columns);
      for (let y = top; y < bottom; y++) {
        for (let x = left; x < right; x++) units[place++] = y * columns + x;
      }
      windows.push((bottom - top) * (right - left));
    }
  }
  return { units, windows };
}

/**
 * The patches of units, each row by row.
 *
 * @param columns Units of a row.
 * @returns By place: which patch it is, of those row by row.
 */
export function patchOrder(units: Uint32Array, columns: number, merge: number): Uint32Array {
  const order = new Uint32Array(units.length * merge ** 2);
  let place = 0;
  for (const unit of units) {
    const top = Math.floor(unit / columns) * merge;
    const left = (unit % columns) * merge;
    for (let dy = 0; dy < merge; dy++) {
      for (let dx = 0; dx < merge; dx++) {
        order[place++] = (top + dy) * columns * merge + left + dx;
      }
    }
  }
  return order;
}
