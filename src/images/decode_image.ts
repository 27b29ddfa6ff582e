/**
 * Bytes of an image's file, or a picture that comes decoded, to pixels. What kind bytes are, they say
 * themselves.
 *
 * @module
 */
import { turns } from "../turns.ts";
import { type DecodedImage, flattened, type ImageAlpha } from "./alpha.ts";
import { readCodedSize } from "./coded_header.ts";
import { beginsWith, codedKindOf, type DecodeImage } from "./coded_image.ts";
import {
  type ImageSize,
  MAX_IMAGE_BYTES,
  type Pixels,
  refuseImage,
  requireSize,
} from "./pixels.ts";
import { isPng, type PngFile, readPng, readPngHeader } from "./png_chunks.ts";
import { PngRows } from "./png_rows.ts";

/** What kinds begin with that nothing decodes, at which byte. */
const OTHER_KINDS: readonly (readonly [name: string, at: number, begin: string])[] = [
  ["BMP", 0, "BM"],
  ["TIFF", 0, "II*\0"],
  ["TIFF", 0, "MM\0*"],
  ["AVIF or HEIC", 4, "ftyp"],
];

/** Of the rows' stream in one piece, so that what one becomes is little. */
const PIECE_BYTES = 2 ** 16;

/** A file, or a picture that is decoded. */
export type ImageSource = Uint8Array | DecodedImage;

/** An image whose size is known, and whose pixels are not there yet. */
export interface OpenedImage extends ImageSize {
  /**
   * Decodes it, in slices between which other work has its turns.
   *
   * @throws {InvalidRequestError} as a rejection, when the file is malformed.
   */
  decode(): Promise<Pixels>;
}

/**
 * Reads what a file begins with: the time that it takes does not grow with the file, and nothing of
 * the size of its pixels is allocated. What is wrong behind that, decoding tells.
 *
 * @param decode Decodes what is no PNG. Default: PNG alone is decoded.
 * @param alpha Default "drop".
 * @throws {InvalidRequestError} when it is no image that is decoded, malformed or too large.
 */
export function openImage(
  image: ImageSource,
  decode?: DecodeImage,
  alpha: ImageAlpha = "drop",
): OpenedImage {
  const size = sizeOfImage(image, decode !== undefined);
  return { ...size, decode: () => decodeImage(image, size, { decode, alpha }) };
}

/**
 * The size that an image says it has.
 *
 * @param readsAll Whether more than PNG is decoded.
 * @throws {InvalidRequestError} when it is no image that is decoded, malformed or too large.
 */
export function sizeOfImage(image: ImageSource, readsAll: boolean): ImageSize {
  if (!(image instanceof Uint8Array)) return sizeOfDecoded(image);
  if (image.length > MAX_IMAGE_BYTES) {
    refuseImage(`${image.length} bytes are more than ${MAX_IMAGE_BYTES}`);
  }
  if (isPng(image)) {
    const { width, height } = readPngHeader(image);
    return { width, height };
  }
  const kind = codedKindOf(image);
  if (kind !== undefined && readsAll) return readCodedSize(image, kind);
  const name = kind ?? OTHER_KINDS.find(([, at, begin]) => beginsWith(image, at, begin))?.[0];
  const what = name === undefined ? "its bytes are no image's that is known" : `it is a ${name}`;
  const decoded = readsAll ? "PNG, JPEG, WebP and GIF are decoded" : "only PNG is decoded";
  return refuseImage(`${what}, and ${decoded}`);
}

function sizeOfDecoded({ width, height, rgba }: DecodedImage): ImageSize {
  requireSize({ width, height });
  if (rgba.length !== width * height * 4) {
    refuseImage(`${width} x ${height} pixels are not ${rgba.length} values`);
  }
  return { width, height };
}

/** @throws {InvalidRequestError} as a rejection, when the file is malformed. */
async function decodeImage(
  image: ImageSource,
  size: ImageSize,
  { decode, alpha }: { readonly decode: DecodeImage | undefined; readonly alpha: ImageAlpha },
): Promise<Pixels> {
  if (!(image instanceof Uint8Array)) return flattened(image, alpha);
  if (isPng(image)) return decodePng(await readPng(image, alpha));
  // Without a decoder its size is none that is told.
  const decoded = await decode!({ ...size, kind: codedKindOf(image)!, bytes: image });
  if (decoded.width !== size.width || decoded.height !== size.height) {
    const told = `its header says ${size.width} x ${size.height} pixels`;
    refuseImage(`${told}, and it is decoded to ${decoded.width} x ${decoded.height}`);
  }
  return flattened(decoded, alpha);
}

async function decodePng(file: PngFile): Promise<Pixels> {
  const rows = new PngRows(file);
  const pieces = piecesOf(file.data);
  const reader = inflated(pieces).getReader();
  try {
    while (!rows.isDone) {
      const { done, value } = await next(reader);
      if (done) refuseImage("its rows end before the picture does");
      for (let rest: Uint8Array = value!; rest.length > 0 && !rows.isDone; ) {
        rest = rest.subarray(rows.take(rest));
        if (turns.isDue) await turns.take();
      }
    }
    // The checksum comes last; bytes behind the rows belong to no picture.
    await next(reader);
  } finally {
    // What is left is never read, and the stream is not cancelled: as soon as Node has inflated what is on
    // its way, it would throw outside of any call.
    pieces.return(undefined);
  }
  return rows.pixels;
}

function inflated(pieces: Iterator<Uint8Array, undefined>): ReadableStream<Uint8Array> {
  // A Blob of thousands of parts would hold up everything else.
  const source = new ReadableStream<BufferSource>({
    pull(controller) {
      const { done, value } = pieces.next();
      if (done) controller.close();
      else controller.enqueue(value as Uint8Array<ArrayBuffer>);
    },
  });
  return source.pipeThrough(new DecompressionStream("deflate"));
}

function* piecesOf(data: readonly Uint8Array[]): Generator<Uint8Array, undefined> {
  for (const part of data) {
    for (let at = 0; at < part.length; at += PIECE_BYTES) {
      yield part.subarray(at, at + PIECE_BYTES);
    }
  }
}

async function next(reader: ReadableStreamDefaultReader<Uint8Array>) {
  try {
    return await reader.read();
  } catch (cause) {
    const problem = cause instanceof Error ? cause.message : String(cause);
    return refuseImage(`its rows are compressed in no way that is known (${problem})`, { cause });
  }
}
