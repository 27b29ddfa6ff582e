/**
 * A picture as CLIP sees it: its middle, in a square.
 *
 * @module
 */
import { cut, type ImageSize, MAX_IMAGE_SIDE, type Pixels, refuseImage } from "./pixels.ts";
import { resample } from "./resample.ts";

/**
 * Brings the shorter side to that of a square and cuts that out of the middle. In slices, between which
 * other work has its turns.
 *
 * @param shortest The side that the shorter one is brought to, `side` at least.
 * @throws {InvalidRequestError} as a rejection, when the longer side is too many times the shorter one.
 */
export async function centralSquare(
  picture: Pixels,
  { side, shortest }: { readonly side: number; readonly shortest: number },
): Promise<Pixels> {
  const resized = await resample(picture, toShortestEdge(picture, shortest), "bicubic");
  const left = Math.floor((resized.width - side) / 2);
  const top = Math.floor((resized.height - side) / 2);
  return cut(resized, { width: side, height: side }, { left, top });
}

/**
 * The size of a picture whose shorter side is brought to `edge`.
 *
 * @throws {InvalidRequestError} when the longer one is then beyond any that is decoded.
 */
export function toShortestEdge({ width, height }: ImageSize, edge: number): ImageSize {
  const longer = Math.trunc((edge * Math.max(width, height)) / Math.min(width, height));
  if (longer > MAX_IMAGE_SIDE) {
    const grown = `its shorter side brought to ${edge} pixels, the longer one is ${longer}`;
    refuseImage(`${grown}, more than ${MAX_IMAGE_SIDE}`);
  }
  return width <= height ? { width: edge, height: longer } : { width: longer, height: edge };
}
