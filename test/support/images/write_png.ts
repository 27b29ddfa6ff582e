/** PNG files of every kind, written from samples: what the decoder is tried with. */

import { crc32, deflateSync } from "node:zlib";

export interface PngKind {
  readonly colorType: 0 | 2 | 3 | 4 | 6;
  readonly bitDepth: 1 | 2 | 4 | 8 | 16;
  readonly interlaced?: boolean;
}

export interface WrittenPng extends PngKind {
  readonly width: number;
  readonly height: number;
  /** `[entries, 3]` of colour type 3 */
  readonly palette?: readonly number[];
  /** Sample `c` of a pixel. */
  sample(x: number, y: number, c: number): number;
}

const SAMPLES = { 0: 1, 2: 3, 3: 1, 4: 2, 6: 4 } as const;
const PASSES = [
  [0, 0, 8, 8],
  [4, 0, 8, 8],
  [0, 4, 4, 8],
  [2, 0, 4, 4],
  [0, 2, 2, 4],
  [1, 0, 2, 2],
  [0, 1, 1, 2],
] as const;

export const samplesOf = ({ colorType }: PngKind): number => SAMPLES[colorType];

/** Filters take turns, row by row. */
export function writePng(png: WrittenPng): Uint8Array<ArrayBuffer> {
  const { width, height, colorType, bitDepth, interlaced = false, palette } = png;
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([bitDepth, colorType, 0, 0, interlaced ? 1 : 0], 8);
  const passes = interlaced ? PASSES : [[0, 0, 1, 1] as const];
  const rows = Buffer.concat(passes.flatMap((pass) => passRows(png, pass)));
  const data = deflateSync(rows);
  const half = data.length >> 1;
  return joinPng([
    ["IHDR", header],
    ["gAMA", Buffer.from([0, 0, 0xb1, 0x8f])],
    ...(palette === undefined ? [] : [["PLTE", Buffer.from(palette)] as const]),
    ["IDAT", data.subarray(0, half)],
    ["IDAT", data.subarray(half)],
    ["IEND", Buffer.alloc(0)],
  ]);
}

export function joinPng(
  chunks: readonly (readonly [type: string, body: Uint8Array])[],
): Uint8Array<ArrayBuffer> {
  const parts: Uint8Array[] = [Buffer.from("\x89PNG\r\n\x1a\n", "latin1")];
  for (const [type, body] of chunks) {
    const named = Buffer.concat([Buffer.from(type, "latin1"), body]);
    const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
    length.writeUInt32BE(body.length);
    check.writeUInt32BE(crc32(named));
    parts.push(length, named, check);
  }
  return Uint8Array.from(Buffer.concat(parts));
}

/** The chunks of a file. */
export function chunksOf(file: Uint8Array): readonly (readonly [string, Uint8Array])[] {
  const bytes = Buffer.from(file);
  const chunks: [string, Uint8Array][] = [];
  for (let at = 8; at < bytes.length; ) {
    const length = bytes.readUInt32BE(at);
    const body = bytes.subarray(at + 8, at + 8 + length);
    chunks.push([bytes.toString("latin1", at + 4, at + 8), body]);
    at += 12 + length;
  }
  return chunks;
}

function passRows(
  png: WrittenPng,
  [x0, y0, dx, dy]: readonly [number, number, number, number],
): Buffer[] {
  const columns = Math.ceil((png.width - x0) / dx);
  const rows = Math.ceil((png.height - y0) / dy);
  if (columns <= 0 || rows <= 0) return [];
  const samples = samplesOf(png);
  const distance = Math.max((png.bitDepth * samples) >> 3, 1);
  let above = new Uint8Array(Math.ceil((columns * samples * png.bitDepth) / 8));
  return Array.from({ length: rows }, (_, r) => {
    const bits = Array.from({ length: columns * samples }, (_, i) => {
      const x = x0 + Math.floor(i / samples) * dx;
      return png
        .sample(x, y0 + r * dy, i % samples)
        .toString(2)
        .padStart(png.bitDepth, "0");
    }).join("");
    const row = Uint8Array.from({ length: above.length }, (_, i) =>
      Number.parseInt(bits.slice(8 * i, 8 * i + 8).padEnd(8, "0"), 2),
    );
    const filtered = filter(row, above, { kind: r % 5, distance });
    above = row;
    return Buffer.from([r % 5, ...filtered]);
  });
}

function filter(
  row: Uint8Array,
  above: Uint8Array,
  { kind, distance }: { readonly kind: number; readonly distance: number },
): Uint8Array {
  return row.map((byte, i) => {
    const a = row[i - distance] ?? 0;
    const b = above[i]!;
    const c = above[i - distance] ?? 0;
    return byte - [0, a, b, Math.floor((a + b) / 2), predicted(a, b, c)][kind]!;
  });
}

function predicted(a: number, b: number, c: number): number {
  const p = a + b - c;
  const nearest = [a, b, c].map((value) => Math.abs(p - value));
  return [a, b, c][nearest.indexOf(Math.min(...nearest))]!;
}
