/**
 * How large the picture in a JPEG, GIF or WebP file is, upright: before anything decodes it.
 *
 * Sources: ITU-T T.81 (1992), annex B; "Graphics Interchange Format, Version 89a" (1990); "WebP
 * Container Specification", Google; "Exif 2.3" (2010), of which the orientation is read.
 *
 * @module
 */
import { type ImageSize, refuseImage, requireSize } from "./pixels.ts";

/** Kinds that this package has no decoder of its own for. */
export type CodedKind = "JPEG" | "GIF" | "WebP";

/** Segments of a JPEG in front of its size, and chunks of a WebP. */
export const MAX_SEGMENTS = 1024;
/** Entries of a directory of Exif. */
const MAX_ENTRIES = 1024;
const ORIENTATION = 0x0112;
/** From which on a picture lies on its side. */
const FIRST_ON_SIDE = 5;

/** @throws {InvalidRequestError} when it is malformed or too large. */
export function readCodedSize(bytes: Uint8Array, kind: CodedKind): ImageSize {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  let size: ImageSize;
  try {
    size = SIZES[kind](view);
  } catch (cause) {
    // A view refuses to read behind its end.
    if (!(cause instanceof RangeError)) throw cause;
    return refuseImage("the file ends within its header", { cause });
  }
  requireSize(size);
  return size;
}

const SIZES: Readonly<Record<CodedKind, (view: DataView) => ImageSize>> = {
  JPEG: jpegSize,
  GIF: (view) => ({ width: view.getUint16(6, true), height: view.getUint16(8, true) }),
  WebP: webpSize,
};

function jpegSize(view: DataView): ImageSize {
  let orientation = 1;
  let at = 2;
  for (let count = 0; count < MAX_SEGMENTS; count++) {
    if (view.getUint8(at) !== 0xff) refuseImage("it has bytes between its segments");
    const marker = view.getUint8(at + 1);
    // Any number of these bytes may stand in front of a marker.
    if (marker === 0xff) {
      at += 1;
      continue;
    }
    const length = view.getUint16(at + 2);
    if (isFrame(marker)) {
      return upright(
        { width: view.getUint16(at + 7), height: view.getUint16(at + 5) },
        orientation,
      );
    }
    if (marker === 0xda) break;
    if (marker === 0xe1 && isExif(view, at + 4)) orientation = exifOrientation(view, at + 10);
    at += 2 + length;
  }
  return refuseImage("it has no size in front of its rows");
}

/** Segments that say how large a picture is: of all ways of coding one. */
function isFrame(marker: number): boolean {
  const isOther = marker === 0xc4 || marker === 0xc8 || marker === 0xcc;
  return marker >= 0xc0 && marker <= 0xcf && !isOther;
}

const isExif = (view: DataView, at: number): boolean =>
  at + 6 <= view.byteLength && view.getUint32(at) === 0x45786966 && view.getUint16(at + 4) === 0;

function webpSize(view: DataView): ImageSize {
  const first = nameAt(view, 12);
  if (first === "VP8 ") {
    return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff };
  }
  if (first === "VP8L") {
    const bits = view.getUint32(21, true);
    return { width: 1 + (bits & 0x3fff), height: 1 + ((bits >>> 14) & 0x3fff) };
  }
  if (first !== "VP8X") return refuseImage("it has no size");
  const uint24 = (at: number) => view.getUint16(at, true) + (view.getUint8(at + 2) << 16);
  const size = { width: 1 + uint24(24), height: 1 + uint24(27) };
  const hasExif = (view.getUint8(20) & 8) !== 0;
  return hasExif ? upright(size, webpOrientation(view)) : size;
}

function webpOrientation(view: DataView): number {
  let at = 12;
  for (let count = 0; count < MAX_SEGMENTS && at + 8 <= view.byteLength; count++) {
    const length = view.getUint32(at + 4, true);
    if (nameAt(view, at) === "EXIF") {
      return exifOrientation(view, at + (isExif(view, at + 8) ? 14 : 8));
    }
    at += 8 + length + (length % 2);
  }
  return 1;
}

function nameAt(view: DataView, at: number): string {
  const [a, b, c, d] = [at, at + 1, at + 2, at + 3].map((i) => view.getUint8(i));
  return String.fromCharCode(a!, b!, c!, d!);
}

/** Of the directory that begins there; 1, which is upright, where it says nothing that is known. */
function exifOrientation(view: DataView, start: number): number {
  if (start + 8 > view.byteLength) return 1;
  const isLittle = view.getUint16(start) === 0x4949;
  const directory = start + view.getUint32(start + 4, isLittle);
  if (directory + 2 > view.byteLength) return 1;
  const entries = Math.min(view.getUint16(directory, isLittle), MAX_ENTRIES);
  for (let i = 0; i < entries; i++) {
    const entry = directory + 2 + 12 * i;
    if (entry + 12 > view.byteLength) return 1;
    if (view.getUint16(entry, isLittle) !== ORIENTATION) continue;
    const value = view.getUint16(entry + 8, isLittle);
    return value >= 1 && value <= 8 ? value : 1;
  }
  return 1;
}

function upright({ width, height }: ImageSize, orientation: number): ImageSize {
  return orientation < FIRST_ON_SIDE ? { width, height } : { width: height, height: width };
}
