/**
 * JSON in bytes -> its value, a piece at a time: a long text would otherwise hold up everything else
 * that the thread does, and a short one can stand for much memory.
 *
 * @module
 */
import { decodeUtf8, MemoryScan, markLength, parsePart } from "./json_part.ts";
import { SlicedJson } from "./sliced_json.ts";

export { JsonError, MAX_DEPTH, MAX_STRING } from "./json_part.ts";

/** Bytes of a text that is read as a whole, and of memory for its values. */
const WHOLE_BYTES = 128 * 1024;
const WHOLE_MEMORY = 512 * 1024;

/**
 * @param bytes Not to be changed until then.
 * @param onMemory Told how many bytes of memory the values take at most, before they are made; it may
 * throw.
 * @returns Yields between pieces; the value comes last.
 * @throws {JsonError} when the text is no JSON in UTF-8, nests deeper than `MAX_DEPTH`, has a string
 * of more than `MAX_STRING` bytes, or is long and beyond one of the limits of `sliced_json.ts`.
 */
export function* parseJsonPieces(
  bytes: Uint8Array,
  onMemory: (bytes: number) => void,
): Generator<undefined, unknown> {
  const text = bytes.subarray(markLength(bytes));
  if (text.length <= WHOLE_BYTES) {
    const memory = new MemoryScan().read(text);
    if (memory <= WHOLE_MEMORY) {
      onMemory(memory);
      return parsePart(decodeUtf8(text));
    }
  }
  const reader = new SlicedJson(text, { onMemory });
  while (!reader.advance()) yield;
  return reader.value;
}
