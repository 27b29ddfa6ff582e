/**
 * Pictures with alpha, to colours alone.
 *
 * @module
 */
import { turns } from "../turns.ts";
import type { ImageSize, Pixels } from "./pixels.ts";

/** What becomes of alpha: it is dropped, so that colours it hides show, or the picture lies on white. */
export const IMAGE_ALPHAS = ["drop", "white"] as const;
export type ImageAlpha = (typeof IMAGE_ALPHAS)[number];

/** Of 8 bits a channel, row by row. */
export interface DecodedImage extends ImageSize {
  /** `[height, width, 4]`: red, green, blue, alpha, of which the colours are not multiplied by alpha */
  readonly rgba: Uint8Array | Uint8ClampedArray;
}

const WHITE = 255;

/** A value of a colour that lies on white, rounded. */
export function onWhite(value: number, alpha: number): number {
  return Math.round((value * alpha + WHITE * (WHITE - alpha)) / WHITE);
}

/** In slices, between which other work has its turns. */
export async function flattened(
  { width, height, rgba }: DecodedImage,
  alpha: ImageAlpha,
): Promise<Pixels> {
  const rgb = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    let from = y * width * 4;
    let to = y * width * 3;
    for (let x = 0; x < width; x++, from += 4, to += 3) {
      const opacity = alpha === "white" ? rgba[from + 3]! : WHITE;
      for (let c = 0; c < 3; c++) {
        const value = rgba[from + c]!;
        rgb[to + c] = opacity === WHITE ? value : onWhite(value, opacity);
      }
    }
    if (turns.isDue) await turns.take();
  }
  return { width, height, rgb };
}
