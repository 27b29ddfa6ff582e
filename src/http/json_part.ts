/**
 * Bytes of JSON -> text and value in one go, the bytes that its structure is made of, and the memory
 * that values take.
 *
 * @module
 */
import { MAX_JSON_DEPTH } from "../request_limits.ts";

/** How deep lists and objects may lie in each other: what walks through values calls itself as often. */
export const MAX_DEPTH = MAX_JSON_DEPTH;

/** Bytes of one string: no text that a model could take comes near. */
export const MAX_STRING = 16 * 1024 * 1024;

export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const COLON = 0x3a;
export const OPEN_LIST = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_LIST = 0x5d;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;

/**
 * Bytes of memory at most, as measured with V8: of an empty list and an empty object, of an item, of a
 * name in an object, and of a string beside its characters, which have up to two bytes each.
 */
export const LIST = 64;
export const OBJECT = 128;
export const ITEM = 24;
export const NAME = 32;
export const STRING = 24;
export const CHARACTER = 2;

/** A text that is no JSON, or none that is read. */
export class JsonError extends Error {
  /** Why, as "it is ..". */
  readonly problem: string;

  constructor(message: string, problem: string, options: ErrorOptions) {
    super(message, options);
    this.problem = problem;
  }
}

export function unread(problem: string, cause?: unknown): JsonError {
  return new JsonError(`Cannot read the text: ${problem}`, problem, { cause });
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @throws {JsonError} when it is not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw unread("it is not UTF-8", cause);
  }
}

/**
 * @param place Reads behind the problem, where the text is a part of a longer one.
 * @throws {JsonError} when it is no JSON.
 */
export function parsePart(text: string, place = ""): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw unread(`it is not JSON: ${(cause as Error).message}${place}`, cause);
  }
}

/** Bytes before the text: those of a byte order mark. */
export function markLength(bytes: Uint8Array): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
}

export function tooDeep(): JsonError {
  return unread(`it is nested deeper than ${MAX_DEPTH} lists and objects`);
}

/** Counts the memory of a short text. */
export class MemoryScan {
  #memory = 0;
  #depth = 0;

  /**
   * @returns Bytes at most that its values take.
   * @throws {JsonError} when they lie too deep in each other.
   */
  read(bytes: Uint8Array): number {
    let string = -1;
    for (let i = 0; i < bytes.length; i++) {
      const byte = bytes[i]!;
      if (string < 0) {
        if (byte === QUOTE) string = i;
        else this.#mark(byte);
      } else if (byte === BACKSLASH) {
        i++;
      } else if (byte === QUOTE) {
        this.#memory += STRING + CHARACTER * (i - string - 1);
        string = -1;
      }
    }
    return this.#memory;
  }

  #mark(byte: number): void {
    if (byte === COMMA) this.#memory += ITEM;
    else if (byte === COLON) this.#memory += NAME;
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) this.#depth--;
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      this.#memory += byte === OPEN_LIST ? LIST : OBJECT;
      if (++this.#depth > MAX_DEPTH) throw tooDeep();
    }
  }
}
