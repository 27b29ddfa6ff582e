/**
 * The parts of a PNG file: its header, its palette, and where its compressed rows are.
 *
 * Source: "Portable Network Graphics (PNG) Specification (Third Edition)", W3C (2025).
 *
 * @module
 */
import { turns } from "../turns.ts";
import type { ImageAlpha } from "./alpha.ts";
import { type ImageSize, refuseImage, requireSize } from "./pixels.ts";

export interface PngHeader extends ImageSize {
  /** Of a sample: 1, 2, 4, 8 or 16. */
  readonly bitDepth: number;
  /** Samples of a pixel, the alpha among them. */
  readonly samples: number;
  /** What a pixel's samples are. */
  readonly color: "gray" | "rgb" | "palette";
  /** Whether the rows come in the seven passes of Adam7. */
  readonly interlaced: boolean;
}

export interface PngFile {
  readonly header: PngHeader;
  /** `[entries, 3]`; empty where pixels are no indices. */
  readonly palette: Uint8Array;
  /**
   * What is transparent without a sample of alpha: alpha by entry of the palette, or the samples of the
   * colour that is, two bytes each; empty where nothing is, and where alpha is dropped.
   */
  readonly transparency: Uint8Array;
  readonly alpha: ImageAlpha;
  /** The zlib stream of the rows, in pieces. */
  readonly data: readonly Uint8Array[];
}

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
/** Of a chunk: length, type and checksum. */
const CHUNK_OVERHEAD = 12;
const HEADER_LENGTH = 13;
const MAX_PALETTE = 256;
/** Bytes of the longest chunk that is read itself, a palette. */
const MAX_CHECKED = 3 * MAX_PALETTE;
/** Of a file: writers cut rows into chunks of 8 kB and more. */
export const MAX_CHUNKS = 2 ** 13;

interface ColorType extends Pick<PngHeader, "samples" | "color"> {
  readonly depths: readonly number[];
}

const COLOR_TYPES: ReadonlyMap<number, ColorType> = new Map([
  [0, { color: "gray", samples: 1, depths: [1, 2, 4, 8, 16] }],
  [2, { color: "rgb", samples: 3, depths: [8, 16] }],
  [3, { color: "palette", samples: 1, depths: [1, 2, 4, 8] }],
  [4, { color: "gray", samples: 2, depths: [8, 16] }],
  [6, { color: "rgb", samples: 4, depths: [8, 16] }],
]);

export function isPng(bytes: Uint8Array): boolean {
  return SIGNATURE.every((byte, i) => bytes[i] === byte);
}

/**
 * Reads what every file begins with; what is behind it is not looked at.
 *
 * @throws {InvalidRequestError} when it is malformed, or the picture too large.
 */
export function readPngHeader(bytes: Uint8Array): PngHeader {
  const chunk = chunkAt(bytes, SIGNATURE.length);
  if (chunk === undefined) return refuseImage("it has no header");
  if (chunk.type !== "IHDR") refuseImage("its first chunk is no header");
  return readHeader(chunk.body);
}

/**
 * Reads the file without its rows. Chunks that change no colour are passed over.
 *
 * @throws {InvalidRequestError} as a rejection, when it is malformed or the picture too large.
 */
export async function readPng(bytes: Uint8Array, alpha: ImageAlpha): Promise<PngFile> {
  const header = readPngHeader(bytes);
  const none = new Uint8Array(0);
  const parts: Parts = { palette: none, transparency: none, data: [] };
  let at = SIGNATURE.length + CHUNK_OVERHEAD + HEADER_LENGTH;
  for (let count = 2; ; count++) {
    const chunk = chunkAt(bytes, at, alpha);
    // A file may end behind its rows.
    if (chunk === undefined || chunk.type === "IEND") break;
    if (count > MAX_CHUNKS) refuseImage(`it has more than ${MAX_CHUNKS} chunks`);
    // What would be dropped is not looked at.
    if (alpha === "white" || chunk.type !== "tRNS") takeChunk(parts, chunk, header);
    at = chunk.end;
    if (turns.isDue) await turns.take();
  }
  if (parts.data.length === 0) refuseImage("it has no rows");
  if (header.color === "palette" && parts.palette.length === 0) refuseImage("it has no palette");
  return { header, alpha, ...parts };
}

interface Parts {
  palette: Uint8Array;
  transparency: Uint8Array;
  readonly data: Uint8Array[];
}

function takeChunk(parts: Parts, { type, body }: Chunk, header: PngHeader): void {
  if (type === "IHDR") refuseImage("it has two headers");
  if (type === "PLTE") {
    if (parts.palette.length > 0) refuseImage("it has two palettes");
    parts.palette = readPalette(body);
  } else if (type === "tRNS") {
    const { color, samples } = header;
    const fits =
      color === "palette"
        ? body.length * 3 <= parts.palette.length
        : samples === (color === "gray" ? 1 : 3) && body.length === 2 * samples;
    if (!fits) refuseImage(`its transparency has ${body.length} bytes`);
    parts.transparency = body;
  } else if (type === "IDAT") {
    parts.data.push(body);
  } else if (isCritical(type)) {
    refuseImage(`its chunk ${JSON.stringify(type)} is unknown and says that it has to be known`);
  }
}

interface Chunk {
  readonly type: string;
  readonly body: Uint8Array;
  /** Where the next one begins. */
  readonly end: number;
}

/** The chunk that begins there; undefined where the file ends. */
function chunkAt(bytes: Uint8Array, at: number, alpha: ImageAlpha = "drop"): Chunk | undefined {
  if (at + CHUNK_OVERHEAD > bytes.length) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const length = view.getUint32(at);
  const type = String.fromCharCode(bytes[at + 4]!, bytes[at + 5]!, bytes[at + 6]!, bytes[at + 7]!);
  const end = at + 8 + length;
  if (end + 4 > bytes.length) refuseImage("the file ends within a chunk");
  // The rows have a checksum of their own; what is longer than it may be is refused for that.
  const isRead = isCritical(type) || (type === "tRNS" && alpha === "white");
  const isChecked = type !== "IDAT" && isRead && length <= MAX_CHECKED;
  if (isChecked && crc32(bytes.subarray(at + 4, end)) !== view.getUint32(end)) {
    refuseImage(`the checksum of its chunk ${JSON.stringify(type)} is wrong`);
  }
  return { type, body: bytes.subarray(at + 8, end), end: end + 4 };
}

/** Whether a chunk's name begins with a capital: a picture is not what it should be without it. */
function isCritical(type: string): boolean {
  return (type.charCodeAt(0) & 0x20) === 0;
}

function readHeader(body: Uint8Array): PngHeader {
  if (body.length !== HEADER_LENGTH) refuseImage(`its header has ${body.length} bytes`);
  const view = new DataView(body.buffer, body.byteOffset, body.length);
  const [width, height] = [view.getUint32(0), view.getUint32(4)];
  const [bitDepth, colorType, compression, filter, interlace] = body.subarray(8) as unknown as [
    number,
    number,
    number,
    number,
    number,
  ];
  const known = COLOR_TYPES.get(colorType);
  if (known === undefined || !known.depths.includes(bitDepth)) {
    return refuseImage(`colour type ${colorType} with ${bitDepth} bits is no PNG's`);
  }
  if (compression !== 0 || filter !== 0 || interlace > 1) {
    refuseImage(
      `compression ${compression}, filter ${filter} or interlace ${interlace} is unknown`,
    );
  }
  requireSize({ width, height });
  const { samples, color } = known;
  return { width, height, bitDepth, samples, color, interlaced: interlace === 1 };
}

function readPalette(body: Uint8Array): Uint8Array {
  if (body.length % 3 !== 0 || body.length === 0 || body.length > 3 * MAX_PALETTE) {
    refuseImage(`its palette has ${body.length} bytes`);
  }
  return body;
}

/** The checksum of PNG and gzip. */
export function crc32(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return ~crc >>> 0;
}
