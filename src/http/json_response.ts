/**
 * A value as a JSON answer, written in short slices of time where it is long.
 *
 * @module
 */
import { turns } from "../turns.ts";

/** UTF-16 units of JSON that are written in one go. */
const SLICE_UNITS = 64 * 1024;
/** Items of a list that are written in one go: numbers, mostly. */
const SLICE_ITEMS = 4096;

/**
 * The answer that `Response.json` gives.
 *
 * @param value Plain data, which nothing may change until then.
 */
export async function jsonResponse(value: object): Promise<Response> {
  const encoder = new TextEncoder();
  const parts: Uint8Array[] = [];
  let text = "";
  for (const piece of jsonPieces(value)) {
    text += piece;
    if (text.length < SLICE_UNITS) continue;
    parts.push(encoder.encode(text));
    text = "";
    if (turns.isDue) await turns.take();
  }
  parts.push(encoder.encode(text));
  const headers = { "content-type": "application/json" };
  return new Response(parts.length === 1 ? (parts[0] as BodyInit) : new Blob(parts as BlobPart[]), {
    headers,
  });
}

/** What `JSON.stringify` writes of plain data, in pieces that are short. */
export function* jsonPieces(value: unknown): Generator<string> {
  if (typeof value === "string" && value.length > SLICE_UNITS) {
    yield* textPieces(value);
  } else if (Array.isArray(value)) {
    yield* listPieces(value);
  } else if (typeof value === "object" && value !== null) {
    yield* objectPieces(value);
  } else {
    yield JSON.stringify(value) ?? "null";
  }
}

function* textPieces(text: string): Generator<string> {
  yield '"';
  for (let from = 0; from < text.length; ) {
    let to = Math.min(text.length, from + SLICE_UNITS);
    // Half of a surrogate pair would be written as an escape.
    if (to < text.length && isHigh(text.charCodeAt(to - 1))) to--;
    yield JSON.stringify(text.slice(from, to)).slice(1, -1);
    from = to;
  }
  yield '"';
}

function* listPieces(list: readonly unknown[]): Generator<string> {
  yield "[";
  for (let from = 0; from < list.length; from += SLICE_ITEMS) {
    if (from > 0) yield ",";
    const items = list.slice(from, from + SLICE_ITEMS);
    if (items.every((item) => typeof item === "number")) {
      yield JSON.stringify(items).slice(1, -1);
      continue;
    }
    for (const [i, item] of items.entries()) {
      if (i > 0) yield ",";
      yield* jsonPieces(item);
    }
  }
  yield "]";
}

function* objectPieces(object: object): Generator<string> {
  let mark = "{";
  for (const [name, value] of Object.entries(object)) {
    if (value === undefined) continue;
    yield `${mark}${JSON.stringify(name)}:`;
    mark = ",";
    yield* jsonPieces(value);
  }
  yield mark === "{" ? "{}" : "}";
}

function isHigh(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}
