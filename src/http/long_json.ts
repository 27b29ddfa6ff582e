/**
 * JSON of values with long lists in them, piece by piece: what a list holds is made into objects and
 * text only as it is written, and other work of the thread has its turns in between.
 *
 * @module
 */
import { turns } from "../turns.ts";

/** Numbers and texts of all lists of a value beyond which it is written in pieces. */
const MANY = 512;
/** Of one item: beyond them the lists in it are written in pieces too. */
const MANY_OF_ITEM = 128;
/** Characters of a piece at least, unless it is the last: a millisecond or two of cold code. */
export const PIECE_LENGTH = 2 ** 13;
/** Characters of a list that is written again and again, as it grows, that are kept. */
const MOST_KEPT = 2 ** 20;

/**
 * A list whose items are made when they are written. It may grow and be written again: what stands at
 * its beginning is kept then, while that is not too much.
 */
export class JsonList<T> {
  readonly #sources: readonly T[];
  readonly #item: (source: T) => unknown;
  readonly #weigh: (source: T) => number;
  /** Items that were made, while they are few. */
  #made: unknown[] = [];
  #weight = 0;
  #weighed = 0;
  /** Whether it was written in pieces; those of its beginning that are kept, and for how many items. */
  #wasWritten = false;
  readonly #kept: string[] = [];
  #keptLength = 0;
  #keptItems = 0;

  /**
   * @param sources What the items are made of.
   * @param item Makes one that `JSON.stringify` writes.
   * @param weigh Numbers and texts in it, about.
   */
  constructor(
    sources: readonly T[],
    item: (source: T) => unknown,
    weigh: (source: T) => number = () => 1,
  ) {
    this.#sources = sources;
    this.#item = item;
    this.#weigh = weigh;
  }

  /** Numbers and texts in all items. */
  get weight(): number {
    for (; this.#weighed < this.#sources.length; this.#weighed++) {
      this.#weight += this.#weigh(this.#sources[this.#weighed]!);
    }
    return this.#weight;
  }

  /** For `JSON.stringify`, which makes all of it at once. */
  toJSON(): readonly unknown[] {
    for (let i = this.#made.length; i < this.#sources.length; i++) {
      this.#made.push(this.#item(this.#sources[i]!));
    }
    return this.#made;
  }

  /** What `JSON.stringify` would write, in pieces. */
  *pieces(): Generator<string, void> {
    this.#made = [];
    const keeps = this.#wasWritten;
    this.#wasWritten = true;
    yield "[";
    for (const piece of this.#kept) yield piece;
    let text = "";
    /** All of the items from `first` on. */
    let whole = "";
    let first = this.#keptItems;
    for (let i = first; i < this.#sources.length; i++) {
      let before = i === 0 ? "" : ",";
      for (const piece of this.#itemPieces(this.#sources[i]!)) {
        text += before + piece;
        whole += before + piece;
        before = "";
        if (text.length < PIECE_LENGTH) continue;
        yield text;
        text = "";
      }
      if (whole.length < PIECE_LENGTH) continue;
      if (keeps) this.#keep(whole, first, i + 1);
      whole = "";
      first = i + 1;
    }
    yield `${text}]`;
  }

  #itemPieces(source: T): Iterable<string> {
    const item = this.#item(source);
    return this.#weigh(source) > MANY_OF_ITEM ? jsonPieces(item) : [JSON.stringify(item)];
  }

  /** Keeps a piece that stands behind those that are kept, and ends before the item `end`. */
  #keep(piece: string, first: number, end: number): void {
    if (first !== this.#keptItems || this.#keptLength + piece.length > MOST_KEPT) return;
    this.#kept.push(piece);
    this.#keptLength += piece.length;
    this.#keptItems = end;
  }
}

/** Whether a value has so much in its lists that it is to be written in pieces. */
export function isLong(value: unknown): boolean {
  let weight = 0;
  for (const list of listsIn(value)) weight += list.weight;
  return weight > MANY;
}

/** What `JSON.stringify` would write of an object or a list, in pieces. */
export function* jsonPieces(value: unknown): Generator<string, void> {
  if (value instanceof JsonList) {
    yield* value.pieces();
    return;
  }
  if (listsIn(value).next().done) {
    yield JSON.stringify(value);
    return;
  }
  const isList = Array.isArray(value);
  const entries = Object.entries(value as object).filter(([, one]) => one !== undefined);
  let before = isList ? "[" : "{";
  for (const [key, one] of entries) {
    before += isList ? "" : `${JSON.stringify(key)}:`;
    // Pieces begin with what stands before them, so that none is only a comma.
    for (const piece of jsonPieces(one)) {
      yield before + piece;
      before = "";
    }
    before = ",";
  }
  yield `${entries.length === 0 ? before : ""}${isList ? "]" : "}"}`;
}

/** The lists of a value, at any depth. What is in them is not looked at, nor in lists of numbers or texts. */
function* listsIn(value: unknown): Generator<JsonList<unknown>, void> {
  if (value instanceof JsonList) yield value;
  else if (Array.isArray(value)) {
    if (typeof value[0] !== "object") return;
    for (const one of value) yield* listsIn(one);
  } else if (typeof value === "object" && value !== null) {
    for (const one of Object.values(value)) yield* listsIn(one);
  }
}

/**
 * The answer with a value as its JSON: in pieces, as its client reads them, where it is long.
 *
 * @param onSent Called once, when all is written or the client has left.
 */
export function jsonResponse(value: object, onSent: () => void = () => {}): Response {
  if (!isLong(value)) {
    onSent();
    return Response.json(value);
  }
  const encoder = new TextEncoder();
  const pieces = jsonPieces(value);
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await turns.take();
      const { done, value: piece } = pieces.next();
      if (!done) {
        controller.enqueue(encoder.encode(piece));
        return;
      }
      onSent();
      controller.close();
    },
    cancel: onSent,
  });
  return new Response(body, { headers: { "content-type": "application/json" } });
}
