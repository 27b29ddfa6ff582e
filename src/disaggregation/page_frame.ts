/**
 * Pages as they travel: whose they are and which, then what the page codec packs, which has a
 * checksum of all of it.
 *
 * | bytes | what, little endian |
 * |---|---|
 * | `[0, 4)` | lease |
 * | `[4, 8)` | which page of the prompt the first one is |
 * | `[8, 12)` | how many there are |
 * | `[12, 16)` | 0 |
 *
 * @module
 */
import { TransferError } from "../errors.ts";

export interface PageFrame {
  readonly lease: number;
  readonly first: number;
  readonly count: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export const FRAME_HEADER_BYTES = 16;

export function encodeFrame({ lease, first, count, bytes }: PageFrame): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(FRAME_HEADER_BYTES + bytes.length);
  const view = new DataView(frame.buffer);
  [lease, first, count].forEach((word, i) => {
    view.setUint32(4 * i, word, true);
  });
  frame.set(bytes, FRAME_HEADER_BYTES);
  return frame;
}

/** @throws {TransferError} when it is too short to say what it is. */
export function decodeFrame(frame: Uint8Array<ArrayBuffer>): PageFrame {
  if (frame.length < FRAME_HEADER_BYTES) {
    throw new TransferError("cache pages", "frame", `they come in ${frame.length} bytes`);
  }
  const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
  const word = (i: number) => view.getUint32(4 * i, true);
  const bytes = frame.subarray(FRAME_HEADER_BYTES);
  return { lease: word(0), first: word(1), count: word(2), bytes };
}
