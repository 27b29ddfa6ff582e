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
import { type MessagePieces, wholeOf } from "./channel.ts";

export interface PageFrame {
  readonly lease: number;
  readonly first: number;
  readonly count: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export const FRAME_HEADER_BYTES = 16;

/** The pages themselves are not copied. */
export function encodeFrame({ lease, first, count, bytes }: PageFrame): MessagePieces {
  const header = new Uint8Array(FRAME_HEADER_BYTES);
  const view = new DataView(header.buffer);
  [lease, first, count].forEach((word, i) => {
    view.setUint32(4 * i, word, true);
  });
  return [header, bytes];
}

/** @throws {TransferError} when it is too short to say what it is. */
export function decodeFrame(message: Uint8Array<ArrayBuffer> | MessagePieces): PageFrame {
  if (message instanceof Uint8Array) return frameOf(message, message.subarray(FRAME_HEADER_BYTES));
  const [header, bytes] = message;
  const isAsSent = message.length === 2 && header!.length === FRAME_HEADER_BYTES;
  return isAsSent ? frameOf(header!, bytes!) : decodeFrame(wholeOf(message));
}

/** @param frame Begins with the header. */
function frameOf(frame: Uint8Array<ArrayBuffer>, bytes: Uint8Array<ArrayBuffer>): PageFrame {
  if (frame.length < FRAME_HEADER_BYTES) {
    throw new TransferError("cache pages", "frame", `they come in ${frame.length} bytes`);
  }
  const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
  const word = (i: number) => view.getUint32(4 * i, true);
  return { lease: word(0), first: word(1), count: word(2), bytes };
}
