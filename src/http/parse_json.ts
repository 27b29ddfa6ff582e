/**
 * JSON in UTF-8 -> its value, in short slices of time where it is long.
 *
 * @module
 */
import { decodeUtf8, markLength, parsePart, refuseDeep } from "./json_part.ts";
import { othersTurn } from "./others_turn.ts";
import { SlicedJson } from "./sliced_json.ts";

/** Bytes that are read in one go. */
export const WHOLE_BYTES = 256 * 1024;
/** Milliseconds until other work of the thread gets a turn. */
const SLICE_MS = 5;

/**
 * The value, as `JSON.parse` gives it.
 *
 * @param bytes Not to be changed until then.
 * @param signal Ends the work on a long text.
 * @throws {JsonTextError} as a rejection, when it is no JSON in UTF-8, nests deeper than `MAX_DEPTH`,
 * or is long and beyond one of the limits of `sliced_json.ts`.
 * @throws `signal.reason` as a rejection, when that is aborted.
 */
export async function parseJson(bytes: Uint8Array, signal?: AbortSignal): Promise<unknown> {
  const text = bytes.subarray(markLength(bytes));
  if (text.length <= WHOLE_BYTES) {
    refuseDeep(text);
    return parsePart(decodeUtf8(text));
  }
  const reader = new SlicedJson(text);
  let until = performance.now() + SLICE_MS;
  while (!reader.advance()) {
    if (performance.now() < until) continue;
    await othersTurn();
    signal?.throwIfAborted();
    until = performance.now() + SLICE_MS;
  }
  return reader.value;
}
