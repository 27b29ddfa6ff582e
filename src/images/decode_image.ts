/**
 * Bytes of an image's file to pixels. What kind they are, they say themselves.
 *
 * @module
 */
import { turns } from "../turns.ts";
import { beginsWith, codedKindOf, type DecodeImage, openCoded } from "./coded_image.ts";
import { type ImageSize, MAX_IMAGE_BYTES, type Pixels, refuseImage } from "./pixels.ts";
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
 * @throws {InvalidRequestError} when it is no image that is decoded, malformed or too large.
 */
export function openImage(bytes: Uint8Array, decode?: DecodeImage): OpenedImage {
  if (bytes.length > MAX_IMAGE_BYTES) {
    refuseImage(`${bytes.length} bytes are more than ${MAX_IMAGE_BYTES}`);
  }
  if (isPng(bytes)) {
    const { width, height } = readPngHeader(bytes);
    return { width, height, decode: async () => decodePng(await readPng(bytes)) };
  }
  const kind = codedKindOf(bytes);
  if (kind !== undefined && decode !== undefined) return openCoded(bytes, kind, decode);
  const name = kind ?? OTHER_KINDS.find(([, at, begin]) => beginsWith(bytes, at, begin))?.[0];
  const what = name === undefined ? "its bytes are no image's that is known" : `it is a ${name}`;
  const decoded =
    decode === undefined ? "only PNG is decoded" : "PNG, JPEG, WebP and GIF are decoded";
  return refuseImage(`${what}, and ${decoded}`);
}

async function decodePng(file: PngFile): Promise<Pixels> {
  const rows = new PngRows(file);
  const reader = inflated(file).getReader();
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
    reader.cancel().catch(() => {});
  }
  return rows.pixels;
}

function inflated({ data }: PngFile): ReadableStream<Uint8Array> {
  const pieces = piecesOf(data);
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
