/**
 * Images of the kinds that only a platform decodes.
 *
 * @module
 */
import type { DecodedImage } from "./alpha.ts";
import type { CodedKind } from "./coded_header.ts";
import type { ImageSize } from "./pixels.ts";

export type { DecodedImage };

/** A file that its bytes say to be of a kind, and whose header says how large its picture is. */
export interface CodedImage extends ImageSize {
  readonly kind: CodedKind;
  readonly bytes: Uint8Array;
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
  const kind = KINDS.find(([, at, begin]) => beginsWith(bytes, at, begin))?.[0];
  // Files of other kinds may have the name of this one at the same place.
  return kind === "WebP" && !beginsWith(bytes, 0, "RIFF") ? undefined : kind;
}

export function beginsWith(bytes: Uint8Array, at: number, begin: string): boolean {
  for (let i = 0; i < begin.length; i++) {
    if (bytes[at + i] !== begin.charCodeAt(i)) return false;
  }
  return true;
}
