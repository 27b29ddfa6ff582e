/** Large PNG files, written as fast as zlib can. */
import { deflateSync } from "node:zlib";
import { joinPng } from "./write_png.ts";

/** A picture in slopes of 8 bits of red, green and blue. */
export function plainPng({
  width,
  height,
}: {
  readonly width: number;
  readonly height: number;
}): Uint8Array<ArrayBuffer> {
  const rows = Buffer.alloc(height * (1 + 3 * width));
  for (let y = 0; y < height; y++) {
    const start = y * (1 + 3 * width) + 1;
    for (let i = 0; i < 3 * width; i++) rows[start + i] = i * (1 + (y % 7)) + y;
  }
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 2], 8);
  return joinPng([
    ["IHDR", header],
    ["IDAT", deflateSync(rows, { level: 1 })],
    ["IEND", Buffer.alloc(0)],
  ]);
}
