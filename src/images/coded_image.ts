/**
 * Images of the kinds that only a platform decodes.
 *
 * @module
 */
import { turns } from "../turns.ts";
import { type CodedKind, readCodedSize } from "./coded_header.ts";
import { type ImageSize, type Pixels, refuseImage } from "./pixels.ts";

/** A file that its bytes say to be of a kind, and whose header says how large its picture is. */
export interface CodedImage extends ImageSize {
  readonly kind: CodedKind;
  readonly bytes: Uint8Array;
}

/** Of 8 bits a channel, row by row. */
export interface DecodedImage extends ImageSize {
  /** `[height, width, 4]`: red, green, blue, alpha, of which the colours are not multiplied by alpha */
  readonly rgba: Uint8Array | Uint8ClampedArray;
}

/**
 * Decodes an image: its first frame, upright, in sRGB.
 *
 * @throws {InvalidRequestError} as a rejection, when the file is malformed; its message begins with
 * "Cannot read the image".
 */
export type DecodeImage = (image: CodedImage) => Promise<DecodedImage>;

/** What a file begins with, at which byte. */
const KINDS: readonly (readonly [kind: CodedKind, at: number, begin: string])[] = [
  ["JPEG", 0, "\xff\xd8\xff"],
  ["GIF", 0, "GIF8"],
  ["WebP", 8, "WEBP"],
];

export function codedKindOf(bytes: Uint8Array): CodedKind | undefined {
  return KINDS.find(([, at, begin]) => beginsWith(bytes, at, begin))?.[0];
}

export function beginsWith(bytes: Uint8Array, at: number, begin: string): boolean {
  for (let i = 0; i < begin.length; i++) {
    if (bytes[at + i] !== begin.charCodeAt(i)) return false;
  }
  return true;
}

/** @throws {InvalidRequestError} when its header is malformed, or says that it is too large. */
export function openCoded(bytes: Uint8Array, kind: CodedKind, decode: DecodeImage) {
  const size = readCodedSize(bytes, kind);
  const image = { ...size, kind, bytes };
  return { ...size, decode: async () => withoutAlpha(await decode(image), size) };
}

/** The colours that alpha hides show. */
async function withoutAlpha(
  { width, height, rgba }: DecodedImage,
  size: ImageSize,
): Promise<Pixels> {
  if (width !== size.width || height !== size.height) {
    const told = `its header says ${size.width} x ${size.height} pixels`;
    refuseImage(`${told}, and it is decoded to ${width} x ${height}`);
  }
  const rgb = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y++) {
    let from = y * width * 4;
    let to = y * width * 3;
    for (let x = 0; x < width; x++, from += 4, to += 3) {
      rgb[to] = rgba[from]!;
      rgb[to + 1] = rgba[from + 1]!;
      rgb[to + 2] = rgba[from + 2]!;
    }
    if (turns.isDue) await turns.take();
  }
  return { width, height, rgb };
}
