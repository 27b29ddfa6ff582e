/**
 * JSON in bytes -> its value, a piece at a time: a long text would otherwise hold up everything else
 * that the thread does, and a short one can stand for much memory.
 *
 * The text is cut between the items of its large lists and objects, and `JSON.parse` reads what is in
 * between. A text of one piece is read as a whole.
 *
 * @module
 */
import { MAX_JSON_DEPTH } from "../request_limits.ts";

/** How deep lists and objects may lie in each other: what walks through values calls itself as often. */
export const MAX_DEPTH = MAX_JSON_DEPTH;

/** Bytes of one string, which is read at once: no text that a model could take comes near. */
export const MAX_STRING = 16 * 1024 * 1024;

/** Bytes of text, and of memory for its values, that are read at once: a few milliseconds. */
const PIECE_BYTES = 128 * 1024;
const PIECE_MEMORY = 384 * 1024;

/**
 * Bytes of memory at most, as measured with V8: of an empty list and an empty object, of an item, of a
 * name in an object, and of a string beside its characters, which have up to two bytes each.
 */
const LIST = 64;
const OBJECT = 128;
const ITEM = 24;
const NAME = 32;
const STRING = 24;
const CHARACTER = 2;

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [LIST_BEGIN, LIST_END, OBJECT_BEGIN, OBJECT_END] = [0x5b, 0x5d, 0x7b, 0x7d];

/** A text that is no JSON, or none that is read. */
export class JsonError extends Error {
  /** Why, as "it is ..". */
  readonly problem: string;

  constructor(message: string, problem: string, options: ErrorOptions) {
    super(message, options);
    this.problem = problem;
  }
}

function unread(problem: string, cause?: unknown): JsonError {
  return new JsonError(`Cannot read the text: ${problem}`, problem, { cause });
}

/** A list or an object that is read in pieces. */
interface Container {
  readonly kind: "text" | "list" | "object";
  readonly value: unknown[] | Record<string, unknown>;
  /** Its name in the object around it. */
  readonly name: string;
  /** What is before the piece that comes next; an item, where that was read in pieces itself. */
  behind: "begin" | "comma" | "item";
}

/**
 * @param onMemory Told how many bytes of memory the values take at most, before they are made; it may
 * throw.
 * @returns Yields between pieces; the value comes last.
 * @throws {JsonError}
 */
export function parseJsonPieces(
  bytes: Uint8Array,
  onMemory: (bytes: number) => void,
): Generator<undefined, unknown> {
  return new JsonPieces(bytes, onMemory).parse();
}

class JsonPieces {
  readonly #bytes: Uint8Array;
  readonly #onMemory: (bytes: number) => void;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  /** From the outside in; around all of them the text itself, whose one item is its value. */
  readonly #around: Container[] = [];
  #container: Container = { kind: "text", value: [], name: "", behind: "begin" };
  #at: number;
  /** Where the piece begins that comes next. */
  #from: number;
  /** Lists and objects of the piece that are open. */
  #depth = 0;
  /** The piece's last comma, and its last list or object, that are in no other; -1 where none is. */
  #comma = -1;
  #item = -1;
  /** Of all that comes before `#at`, before the piece, behind its last comma, before its last item. */
  #memory = 0;
  #memoryAtPiece = 0;
  #memoryAtComma = 0;
  #memoryAtItem = 0;

  constructor(bytes: Uint8Array, onMemory: (bytes: number) => void) {
    this.#bytes = bytes;
    this.#onMemory = onMemory;
    const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
    this.#at = hasMark ? 3 : 0;
    this.#from = this.#at;
  }

  *parse(): Generator<undefined, unknown> {
    let seen = 0;
    while (this.#at < this.#bytes.length) {
      const before = this.#at;
      this.#step(this.#bytes[before]!);
      seen += this.#at - before;
      if (this.#isLong() && this.#cut()) seen = PIECE_BYTES;
      if (seen < PIECE_BYTES) continue;
      seen = 0;
      yield;
    }
    return this.#end();
  }

  #step(byte: number): void {
    const at = this.#at++;
    switch (byte) {
      case QUOTE:
        this.#string(at);
        break;
      case LIST_BEGIN:
      case OBJECT_BEGIN:
        this.#open(at, byte);
        break;
      case LIST_END:
      case OBJECT_END:
        if (this.#depth > 0) this.#depth--;
        else this.#close(at, byte);
        break;
      case COMMA:
        this.#memory += ITEM;
        if (this.#depth === 0) this.#endItem(at);
        break;
      case COLON:
        this.#memory += NAME;
        break;
      default:
    }
  }

  /** Goes behind the string's end; where there is none, behind the text's. */
  #string(begin: number): void {
    const bytes = this.#bytes;
    for (let quote = begin; ; ) {
      quote = bytes.indexOf(QUOTE, quote + 1);
      if (quote === -1) quote = bytes.length;
      let escapes = 0;
      while (bytes[quote - 1 - escapes] === BACKSLASH) escapes++;
      if (escapes % 2 === 1 && quote < bytes.length) continue;
      if (quote - begin > MAX_STRING + 1) {
        throw unread(`it has a string of more than ${MAX_STRING} bytes`);
      }
      this.#at = Math.min(quote + 1, bytes.length);
      this.#memory += STRING + CHARACTER * (quote - begin - 1);
      return;
    }
  }

  #open(at: number, byte: number): void {
    if (this.#depth === 0) {
      this.#item = at;
      this.#memoryAtItem = this.#memory;
    }
    this.#depth++;
    if (this.#around.length + this.#depth > MAX_DEPTH) {
      throw unread(`it is nested deeper than ${MAX_DEPTH} lists and objects`);
    }
    this.#memory += byte === LIST_BEGIN ? LIST : OBJECT;
  }

  #endItem(at: number): void {
    const { kind, behind } = this.#container;
    if (behind === "item") {
      this.#requireBlank(at);
      if (kind === "text") throw this.#wrong(at);
      this.#goOn(at + 1, "comma");
    } else if (kind !== "text") {
      this.#comma = at;
      this.#memoryAtComma = this.#memory;
    }
  }

  /** The container ends that is read in pieces. */
  #close(at: number, byte: number): void {
    const container = this.#container;
    const { kind, behind, value, name } = container;
    if (kind === "text" && behind !== "item") return;
    if (byte !== (kind === "list" ? LIST_END : OBJECT_END) || kind === "text") {
      throw this.#wrong(at);
    }
    if (behind === "item") this.#requireBlank(at);
    else if (behind === "comma" || !this.#isBlank(at)) this.#take(at);
    this.#container = this.#around.pop()!;
    add(this.#container, name, value);
    this.#goOn(at + 1, "item");
  }

  #isLong(): boolean {
    return (
      this.#at - this.#from >= PIECE_BYTES || this.#memory - this.#memoryAtPiece >= PIECE_MEMORY
    );
  }

  /** @returns Whether a piece was read. */
  #cut(): boolean {
    if (this.#comma >= 0) {
      const comma = this.#comma;
      this.#take(comma);
      const item = this.#item > comma ? this.#item : -1;
      this.#goOn(comma + 1, "comma");
      this.#item = item;
      this.#memoryAtPiece = this.#memoryAtComma;
      return true;
    }
    if (this.#depth > 0) this.#enter(this.#item);
    return false;
  }

  /** Reads the list or object there in pieces. */
  #enter(at: number): void {
    const isObject = this.#bytes[at] === OBJECT_BEGIN;
    const name = this.#nameBefore(at);
    this.#around.push(this.#container);
    const kind = isObject ? "object" : "list";
    this.#container = { kind, value: isObject ? {} : [], name, behind: "begin" };
    this.#at = at + 1;
    this.#memory = this.#memoryAtItem + (isObject ? OBJECT : LIST);
    this.#depth = 0;
    this.#goOn(at + 1, "begin");
  }

  /** Of an item of an object; before any other item there is nothing. */
  #nameBefore(at: number): string {
    const { kind, behind } = this.#container;
    if (behind === "item") throw this.#wrong(at);
    if (kind !== "object") {
      this.#requireBlank(at);
      return "";
    }
    // What is there of an item must be a name and a colon, and no part of a value.
    const [name, ...others] = Object.keys(this.#read(at, (text) => `{${text}null}`) as object);
    if (name === undefined || others.length > 0) throw this.#wrong(at);
    return name;
  }

  /** Reads the piece up to there into the container. */
  #take(end: number): void {
    const { kind, behind } = this.#container;
    if (behind === "item" || this.#isBlank(end)) throw this.#wrong(end);
    this.#onMemory(this.#memory);
    if (kind === "list") {
      const items = this.#read(end, (text) => `[${text}]`) as readonly unknown[];
      for (const item of items) add(this.#container, "", item);
    } else {
      const items = this.#read(end, (text) => `{${text}}`) as Readonly<Record<string, unknown>>;
      for (const name of Object.keys(items)) add(this.#container, name, items[name]);
    }
  }

  #goOn(from: number, behind: Container["behind"]): void {
    this.#container.behind = behind;
    this.#from = from;
    this.#comma = -1;
    this.#item = -1;
    this.#memoryAtPiece = this.#memory;
  }

  #end(): unknown {
    const { kind, behind, value } = this.#container;
    const end = this.#bytes.length;
    this.#onMemory(this.#memory);
    if (kind === "text" && behind === "begin") return this.#read(end, (text) => text);
    if (kind !== "text" || this.#depth > 0) throw this.#wrong(end);
    this.#requireBlank(end);
    return (value as readonly unknown[])[0];
  }

  #read(end: number, around: (text: string) => string): unknown {
    let text: string;
    try {
      text = this.#decoder.decode(this.#bytes.subarray(this.#from, end));
    } catch (cause) {
      throw unread("it is not UTF-8", cause);
    }
    try {
      return JSON.parse(around(text));
    } catch (cause) {
      if (this.#around.length > 0) throw this.#wrong(this.#from, cause);
      throw unread(`it is not JSON: ${(cause as Error).message}`, cause);
    }
  }

  #requireBlank(end: number): void {
    if (!this.#isBlank(end)) throw this.#wrong(end);
  }

  #isBlank(end: number): boolean {
    for (let at = this.#from; at < end; at++) {
      const byte = this.#bytes[at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return false;
    }
    return true;
  }

  #wrong(at: number, cause?: unknown): JsonError {
    return unread(`it is not JSON: what is around byte ${at} does not fit`, cause);
  }
}

function add({ value }: Container, name: string, item: unknown): void {
  if (Array.isArray(value)) value.push(item);
  // Assigned, this name would be no name but the object's prototype.
  else if (name !== "__proto__") value[name] = item;
  else Object.defineProperty(value, name, { value: item, ...OWN });
}

const OWN = { enumerable: true, configurable: true, writable: true };
