/**
 * Where ranks that are threads of one process meet: memory that all of them have.
 *
 * An exchange has a number. A rank that comes to it writes what it brings, and its number behind that;
 * the others read once all numbers are there. There are two places for what ranks bring, by turns: who
 * comes to the exchange behind the next one has seen that all have read this one.
 *
 * @module
 */

/** Bytes of a text that a rank tells others; longer ones are cut, and compared by their lengths too. */
export const TEXT_BYTES = 2048;
/** Bytes that a rank brings to one exchange, at most. */
export const MAX_EXCHANGE_BYTES = 2 ** 30;
/** Bytes of what a rank brings that there is room for from the start. */
const FIRST_BYTES = 2 ** 16;

/** As a thread is given it. */
export interface GroupMemory {
  readonly size: number;
  /** Words of `WORD`, then the number that each rank has come to, then a message of each, twice. */
  readonly words: SharedArrayBuffer;
  /** The text of each message, then that of the rank that has left. */
  readonly texts: SharedArrayBuffer;
  /** What each rank brings, twice; they grow. */
  readonly parts: readonly SharedArrayBuffer[];
}

/** Words that a group has once. */
export const WORD = {
  /** Counts what has happened; who waits is woken. */
  bell: 0,
  /** 1 once a rank writes why it leaves: the first that does is the one that all hear of. */
  leaving: 1,
  /** Its number and 1, once the text is there. */
  left: 2,
  /** Whether the text is the whole message of an error. */
  isWhole: 3,
  textLength: 4,
  /** Threads that can be ended: they wait for nothing of Dawn's. */
  quiet: 6,
} as const;
const WORDS = 8;

/** Words of a message, in front of the bytes that the rank has for each. */
export const MESSAGE = { kind: 0, length: 1, sends: 2 } as const;

/** What a rank has come for. */
export const KIND = { gather: 0, toAll: 1, spoil: 2 } as const;

const messageWords = (size: number) => MESSAGE.sends + size;

/** Index of the word with the exchange that a rank has come to. */
export const arrivedAt = (rank: number) => WORDS + rank;

/** Index of the first word of a rank's message. @param turn 0 or 1. */
export function messageAt(size: number, turn: number, rank: number): number {
  return WORDS + size + (turn * size + rank) * messageWords(size);
}

/** Index of a rank's part and, in texts of `TEXT_BYTES`, of its text. @param turn 0 or 1. */
export const placeAt = (size: number, turn: number, rank: number) => turn * size + rank;
/** Of the text of the rank that has left. */
export const lastPlace = (size: number) => 2 * size;

/** Memory of a new group of so many ranks. */
export function groupMemory(size: number): GroupMemory {
  const words = WORDS + size + 2 * size * messageWords(size);
  return {
    size,
    words: new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT * words),
    texts: new SharedArrayBuffer((lastPlace(size) + 1) * TEXT_BYTES),
    parts: Array.from(
      { length: 2 * size },
      () => new SharedArrayBuffer(FIRST_BYTES, { maxByteLength: MAX_EXCHANGE_BYTES }),
    ),
  };
}
