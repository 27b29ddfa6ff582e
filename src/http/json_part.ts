/**
 * Bytes of JSON -> text and value in one go, and the bytes that its structure is made of.
 *
 * @module
 */

import { MAX_JSON_DEPTH } from "../request_limits.ts";

/** Objects and arrays inside of each other. */
export const MAX_DEPTH = MAX_JSON_DEPTH;

export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const OPEN_LIST = 0x5b;
export const BACKSLASH = 0x5c;
export const CLOSE_LIST = 0x5d;
export const OPEN_OBJECT = 0x7b;
export const CLOSE_OBJECT = 0x7d;

/** A text that is not read, because it is no JSON or beyond a limit; the message begins with "it". */
export class JsonTextError extends Error {
  override readonly name = "JsonTextError";
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @throws {JsonTextError} when it is not UTF-8. */
export function decodeUtf8(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new JsonTextError("it is not UTF-8", { cause });
  }
}

/**
 * @param place Reads behind the problem, where the text is a part of a longer one.
 * @throws {JsonTextError} when it is no JSON.
 */
export function parsePart(text: string, place = ""): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new JsonTextError(`it is not JSON: ${(cause as Error).message}${place}`, { cause });
  }
}

/** Bytes before the text: those of a byte order mark. */
export function markLength(bytes: Uint8Array): number {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
}

export function tooDeep(): JsonTextError {
  return new JsonTextError(`it nests deeper than ${MAX_DEPTH} levels`);
}

/** @throws {JsonTextError} when the text nests too deep for those who walk through its value. */
export function refuseDeep(bytes: Uint8Array): void {
  if (bytes.length <= MAX_DEPTH) return;
  let depth = 0;
  let isQuoted = false;
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]!;
    if (isQuoted) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) isQuoted = false;
    } else if (byte === QUOTE) {
      isQuoted = true;
    } else if (byte === OPEN_LIST || byte === OPEN_OBJECT) {
      if (++depth > MAX_DEPTH) throw tooDeep();
    } else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) {
      depth--;
    }
  }
}
