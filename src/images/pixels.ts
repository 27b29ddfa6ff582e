/**
 * A picture as the parts of this folder hand it on, and how large one may be.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";

/** 8 bits a channel, row by row. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  /** `[height, width, 3]`: red, green, blue */
  readonly rgb: Uint8Array;
}

/** Bytes of an image's file. */
export const MAX_IMAGE_BYTES = 32 * 2 ** 20;
/** Pixels of an image: three bytes each are allocated. */
export const MAX_IMAGE_PIXELS = 2 ** 25;
/** Of each side: the weights of a resampled row follow it. */
export const MAX_IMAGE_SIDE = 2 ** 15;

export interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** @throws {InvalidRequestError} always, in place of an image. */
export function refuseImage(problem: string, options?: ErrorOptions): never {
  throw new InvalidRequestError(`Cannot read the image: ${problem}`, undefined, options);
}

/** @throws {InvalidRequestError} when it is larger than any that is decoded. */
export function requireSize({ width, height }: ImageSize): void {
  if (width < 1 || height < 1) refuseImage(`it is ${width} x ${height} pixels large`);
  if (Math.max(width, height) > MAX_IMAGE_SIDE) {
    refuseImage(`a side of ${Math.max(width, height)} pixels is beyond ${MAX_IMAGE_SIDE}`);
  }
  if (width * height > MAX_IMAGE_PIXELS) {
    refuseImage(`${width} x ${height} pixels are more than ${MAX_IMAGE_PIXELS}`);
  }
}

/** A part of a picture, which has all of it. */
export function cut(
  { width, rgb }: Pixels,
  size: ImageSize,
  { left, top }: { readonly left: number; readonly top: number },
): Pixels {
  const out = new Uint8Array(size.width * size.height * 3);
  for (let y = 0; y < size.height; y++) {
    const from = ((top + y) * width + left) * 3;
    out.set(rgb.subarray(from, from + size.width * 3), y * size.width * 3);
  }
  return { ...size, rgb: out };
}

/** Puts a picture into a larger one, which has room for all of it. */
export function paste(
  { width, height, rgb }: Pixels,
  into: Pixels,
  { left, top }: { readonly left: number; readonly top: number },
): void {
  for (let y = 0; y < height; y++) {
    const row = rgb.subarray(y * width * 3, (y + 1) * width * 3);
    into.rgb.set(row, ((top + y) * into.width + left) * 3);
  }
}
