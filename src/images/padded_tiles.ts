/**
 * A picture as DeepSeek-VL2 sees it: the whole of it in one tile, and behind it tiles of a size that
 * fits it best; what neither covers is gray.
 *
 * Source: Wu et al., "DeepSeek-VL2: Mixture-of-Experts Vision-Language Models for Advanced Multimodal
 * Understanding" (2024).
 *
 * @module
 */
import { turns } from "../turns.ts";
import { cut, type ImageSize, type Pixels, paste } from "./pixels.ts";
import { resample } from "./resample.ts";
import { roundHalfEven } from "./rounding.ts";

/** What pads, of each channel: the mean of what pixels can be, rounded down. */
const GRAY = 127;

/** The first of the sizes in which most of the picture can be seen, with the least that is wasted. */
export function bestResolution(
  { width, height }: ImageSize,
  resolutions: readonly (readonly [width: number, height: number])[],
): ImageSize {
  let best = { width: 0, height: 0 };
  let most = -1;
  let least = Number.POSITIVE_INFINITY;
  for (const [w, h] of resolutions) {
    const scale = Math.min(w / width, h / height);
    const scaled = Math.trunc(width * scale) * Math.trunc(height * scale);
    const seen = Math.min(scaled, width * height);
    const wasted = w * h - seen;
    if (seen < most || (seen === most && wasted >= least)) continue;
    best = { width: w, height: h };
    [most, least] = [seen, wasted];
  }
  return best;
}

/** The picture in a tile, and in tiles of `size` row by row; in slices, between which other work has its turns. */
export async function paddedTiles(
  picture: Pixels,
  { tileSide, size }: { readonly tileSide: number; readonly size: ImageSize },
): Promise<readonly Pixels[]> {
  const square = { width: tileSide, height: tileSide };
  const tiles = [await padded(picture, square)];
  const local = await padded(picture, size);
  for (let top = 0; top < size.height; top += tileSide) {
    for (let left = 0; left < size.width; left += tileSide) {
      tiles.push(cut(local, square, { left, top }));
      if (turns.isDue) await turns.take();
    }
  }
  return tiles;
}

/** As large as fits, in the middle. */
async function padded(picture: Pixels, size: ImageSize): Promise<Pixels> {
  const resized = await resample(picture, within(picture, size), "bicubic");
  if (resized.width === size.width && resized.height === size.height) return resized;
  const out = { ...size, rgb: new Uint8Array(size.width * size.height * 3).fill(GRAY) };
  const left = roundHalfEven((size.width - resized.width) * 0.5);
  const top = roundHalfEven((size.height - resized.height) * 0.5);
  paste(resized, out, { left, top });
  return out;
}

/** The largest size of the picture's shape, near enough, within another. */
function within({ width, height }: ImageSize, size: ImageSize): ImageSize {
  const shape = width / height;
  const wanted = size.width / size.height;
  if (shape > wanted) {
    const least = Math.max(roundHalfEven((height / width) * size.width), 1);
    return { width: size.width, height: least };
  }
  if (shape < wanted) {
    const least = Math.max(roundHalfEven((width / height) * size.height), 1);
    return { width: least, height: size.height };
  }
  return size;
}
