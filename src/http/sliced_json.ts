/**
 * Long JSON -> its value, a slice at a time.
 *
 * Every part of the text is read by `JSON.parse` itself, so that the value is the one that it would
 * give for all of it. A scan over the bytes finds where the text may be cut: behind whole elements
 * of an array or an object. What is too long for a slice stands in its element as a placeholder: the
 * value of a container, which is filled by slices of its own, and a string, which is put together
 * from pieces.
 *
 * @module
 */
import {
  BACKSLASH,
  CHARACTER,
  CLOSE_LIST,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  decodeUtf8,
  ITEM,
  type JsonError,
  LIST,
  MAX_DEPTH,
  MAX_STRING,
  NAME,
  OBJECT,
  OPEN_LIST,
  OPEN_OBJECT,
  parsePart,
  QUOTE,
  STRING,
  tooDeep,
  unread,
} from "./json_part.ts";

/** Bytes that are looked at in one slice; what is parsed in it is not much more. */
export const SLICE_BYTES = 64 * 1024;
/** Bytes of memory for the values of a slice. */
const SLICE_MEMORY = 384 * 1024;
/** Slices that an element takes beside long strings and white space, for a name and a number. */
export const ELEMENT_SLICES = 8;
/** White space that is kept as it is. */
const SPACE_BYTES = 1024;
/** Arrays and objects: each takes many times the memory of its text. */
export const MAX_CONTAINERS = 2 ** 18;
/** Items of an array. */
export const MAX_ITEMS = 2 ** 20;
/** Members of an object, those counted twice that come twice. */
export const MAX_MEMBERS = 2 ** 16;

/** Stand in an element for what is known already; nothing else fits in beside them. */
const TEXT = '""';
const CONTAINER = "[]";
const NONE = -1;
const LETTER_U = 0x75;

/** What a scan outside of strings does at each byte; nothing at most of them. */
const PASS = 0;
const SPACE = 1;
const MARK = 2;
const ACTIONS = new Uint8Array(256);
for (const space of [0x20, 0x09, 0x0a, 0x0d]) ACTIONS[space] = SPACE;
for (const mark of [QUOTE, COMMA, COLON, OPEN_LIST, OPEN_OBJECT, CLOSE_LIST, CLOSE_OBJECT]) {
  ACTIONS[mark] = MARK;
}

type Container = unknown[] | Record<string, unknown>;

export interface SlicedJsonOptions {
  /** Told how many bytes of memory the values take at most, before they are made; it may throw. */
  readonly onMemory?: (bytes: number) => void;
  /** Bytes of text that are looked at in one slice. Default 64 Ki. */
  readonly sliceBytes?: number;
}

/** A container that is open and has a value already. */
interface Frame {
  readonly value: Container;
  /** Where the text begins that is not in the value yet. */
  from: number;
  /** What of the element stands before that, with placeholders and without long white space. */
  carried: string;
  /** What the placeholders stand for. */
  name: string | undefined;
  held: { readonly value: unknown } | undefined;
  /** Elements that are in the value. */
  count: number;
}

export class SlicedJson {
  readonly #bytes: Uint8Array;
  readonly #sliceBytes: number;
  readonly #onMemory: (bytes: number) => void;
  #position = 0;
  /** Of all values up to there, and where the slice ends because of it. */
  #memory = 0;
  #memoryEnd = 0;
  /** Containers that are open, the text itself as an array of one item around them. */
  #depth = 0;
  #containers = 0;
  /** The outermost of them, which slices have cut through. */
  readonly #frames: Frame[] = [frameAt([], 0)];
  /** Where each is opened, and its last comma that is not in a value. */
  readonly #opens = new Int32Array(MAX_DEPTH + 1).fill(NONE);
  readonly #commas = new Int32Array(MAX_DEPTH + 1).fill(NONE);
  /** Where the string begins that the position is in. */
  #string = NONE;
  /** Where its last escape begins and ends. */
  #escape = { from: NONE, to: NONE };
  /** The pieces of it that are read, and where the next one begins. */
  #long: { text: string; from: number } | undefined;
  /** Where the white space begins that the position is in. */
  #space = NONE;

  constructor(
    bytes: Uint8Array,
    { onMemory = () => {}, sliceBytes = SLICE_BYTES }: SlicedJsonOptions = {},
  ) {
    this.#bytes = bytes;
    this.#sliceBytes = sliceBytes;
    this.#onMemory = onMemory;
  }

  /** The value, once all is read. */
  get value(): unknown {
    return (this.#frames[0]!.value as unknown[])[0];
  }

  /**
   * Reads the next slice.
   *
   * @returns Whether it was the last one.
   * @throws {JsonError} when the text is no JSON, or beyond a limit.
   */
  advance(): boolean {
    const { length } = this.#bytes;
    const end = Math.min(length, this.#position + this.#sliceBytes);
    this.#memoryEnd = this.#memory + SLICE_MEMORY;
    while (this.#position < end && this.#memory < this.#memoryEnd) {
      if (this.#string === NONE) this.#scan(end);
      else this.#scanString(end);
    }
    this.#onMemory(this.#memory);
    if (this.#position < length) {
      this.#cut();
      return false;
    }
    if (this.#string !== NONE) this.#checkString(length);
    if (this.#depth > 0 || this.#string !== NONE) throw this.#malformed("it ends early");
    if (this.#space !== NONE) this.#endSpace(length);
    this.#take(this.#frames[0]!, length);
    if (this.#frames[0]!.count !== 1) throw this.#malformed("it has no value");
    return true;
  }

  /** Goes to the next string or to the end. */
  #scan(end: number): void {
    const bytes = this.#bytes;
    let i = this.#position;
    for (; i < end && this.#memory < this.#memoryEnd; i++) {
      const byte = bytes[i]!;
      const action = ACTIONS[byte];
      if (action === SPACE) {
        if (this.#space === NONE) this.#space = i;
        continue;
      }
      if (this.#space !== NONE) this.#endSpace(i);
      if (action === PASS) continue;
      if (byte === QUOTE) {
        this.#string = i;
        this.#position = i + 1;
        return;
      }
      if (byte === COLON) this.#memory += NAME;
      else if (byte === COMMA) this.#comma(i);
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) this.#open(i);
      else this.#close(i, byte);
    }
    this.#position = i;
  }

  /** Goes behind the string or to the end, or one byte further where that is escaped. */
  #scanString(end: number): void {
    const bytes = this.#bytes;
    let i = this.#position;
    for (; i < end; i++) {
      const byte = bytes[i]!;
      if (byte === BACKSLASH) {
        this.#escape = { from: i, to: i + (bytes[i + 1] === LETTER_U ? 6 : 2) };
        i++;
      } else if (byte === QUOTE) {
        this.#endString(i);
        i++;
        break;
      }
    }
    this.#position = i;
  }

  #open(at: number): void {
    if (this.#depth === MAX_DEPTH) throw tooDeep();
    if (++this.#containers > MAX_CONTAINERS) {
      throw unread(`it has more than ${MAX_CONTAINERS} arrays and objects`);
    }
    this.#memory += this.#bytes[at] === OPEN_LIST ? LIST : OBJECT;
    this.#depth++;
    this.#opens[this.#depth] = at;
    this.#commas[this.#depth] = NONE;
  }

  #close(at: number, byte: number): void {
    if (this.#depth === 0) throw this.#malformed("a bracket closes that none opens", at);
    if (this.#frames.length > this.#depth) {
      const frame = this.#frames.pop()!;
      if ((byte === CLOSE_LIST) !== Array.isArray(frame.value)) {
        throw this.#malformed("a bracket is closed by another kind", at);
      }
      this.#take(frame, at);
      const parent = this.#frames.at(-1)!;
      parent.carried += CONTAINER;
      parent.held = { value: frame.value };
      parent.from = at + 1;
    }
    this.#depth--;
  }

  #comma(at: number): void {
    if (this.#depth === 0) throw this.#malformed("more follows behind its value", at);
    this.#memory += ITEM;
    const frame = this.#frames[this.#depth];
    this.#commas[this.#depth] = at;
    if (frame !== undefined && frame.carried !== "") this.#takeWhole(frame, this.#depth);
  }

  /** White space is over: a long one is let go. */
  #endSpace(at: number): void {
    const from = this.#space;
    this.#space = NONE;
    if (at - from < SPACE_BYTES) return;
    this.#fillFrames();
    this.#carry(from, " ");
    this.#frames.at(-1)!.from = at;
  }

  #endString(at: number): void {
    this.#checkString(at);
    this.#memory += STRING + CHARACTER * (at - this.#string - 1);
    if (this.#long !== undefined) {
      this.#addPiece(at);
      this.#hold(this.#long.text);
      this.#frames.at(-1)!.from = at + 1;
      this.#long = undefined;
    }
    this.#string = NONE;
  }

  #checkString(to: number): void {
    if (to - this.#string <= MAX_STRING + 1) return;
    throw unread(`it has a string of more than ${MAX_STRING} bytes`);
  }

  /** Puts into values what is complete. */
  #cut(): void {
    this.#fillFrames();
    const start = this.#string;
    if (start !== NONE) this.#checkString(this.#position);
    if (this.#long !== undefined) {
      this.#addPiece(this.#cutBefore(this.#position));
    } else if (start !== NONE && this.#position - start > this.#sliceBytes) {
      this.#carry(start, "");
      this.#long = { text: "", from: start + 1 };
      this.#addPiece(this.#cutBefore(this.#position));
    } else {
      const { from, carried } = this.#frames.at(-1)!;
      const to = this.#space === NONE ? this.#position : this.#space;
      if (carried.length + to - from <= ELEMENT_SLICES * this.#sliceBytes + SPACE_BYTES) return;
      throw unread(`it has a number or a word that is too long (behind byte ${from})`);
    }
  }

  /** Gives each container that is open a value with its elements so far. */
  #fillFrames(): void {
    for (let depth = 0; depth <= this.#depth; depth++) {
      let frame = this.#frames[depth];
      if (frame === undefined) {
        const at = this.#opens[depth]!;
        this.#carry(at, "");
        frame = frameAt(this.#bytes[at] === OPEN_LIST ? [] : {}, at + 1);
        this.#frames.push(frame);
      }
      if (this.#commas[depth] !== NONE) this.#takeWhole(frame, depth);
    }
  }

  /** Takes the elements before the last comma. */
  #takeWhole(frame: Frame, depth: number): void {
    const comma = this.#commas[depth]!;
    const before = frame.count;
    this.#take(frame, comma);
    if (frame.count === before) throw this.#malformed("an element is missing", comma);
    frame.from = comma + 1;
    this.#commas[depth] = NONE;
  }

  /** Puts the elements up to there into the container's value; none only into an empty one. */
  #take(frame: Frame, to: number): void {
    const text = frame.carried + decodeUtf8(this.#bytes.subarray(frame.from, to));
    const place = ` (in the part from byte ${frame.from})`;
    const { value, count } = frame;
    if (Array.isArray(value)) {
      const items = parsePart(`[${text}]`, place) as unknown[];
      if (frame.held !== undefined) items[0] = frame.held.value;
      for (const item of items) value.push(item);
      frame.count += items.length;
    } else {
      const members = parsePart(`{${text}}`, place) as Record<string, unknown>;
      for (const key of Object.keys(members)) {
        setMember(
          value,
          frame.name ?? key,
          frame.held === undefined ? members[key] : frame.held.value,
        );
        frame.count++;
      }
    }
    if (frame.count === count && count > 0) throw this.#malformed("an element is missing", to);
    if (frame.count > (Array.isArray(value) ? MAX_ITEMS : MAX_MEMBERS)) throw tooMany(value);
    frame.carried = "";
    frame.name = undefined;
    frame.held = undefined;
  }

  /** Keeps what the innermost container has of its element before a place, and what stands for more. */
  #carry(to: number, placeholder: string): void {
    const frame = this.#frames.at(-1)!;
    frame.carried += decodeUtf8(this.#bytes.subarray(frame.from, to)) + placeholder;
    frame.from = to;
  }

  /** Keeps a string of the innermost container, the name of a member or a value. */
  #hold(text: string): void {
    const frame = this.#frames.at(-1)!;
    const isName = !Array.isArray(frame.value) && frame.carried.trim() === "";
    if (isName) frame.name = text;
    else frame.held = { value: text };
    frame.carried += TEXT;
  }

  #addPiece(to: number): void {
    const long = this.#long!;
    const piece = decodeUtf8(this.#bytes.subarray(long.from, to));
    long.text += parsePart(`"${piece}"`, ` (in the part from byte ${long.from})`) as string;
    long.from = to;
  }

  /** A place in a string that is inside of no escape and of no character's bytes. */
  #cutBefore(at: number): number {
    let place = at < this.#escape.to ? this.#escape.from : at;
    for (let i = 0; i < 3 && (this.#bytes[place]! & 0xc0) === 0x80; i++) place--;
    return place;
  }

  #malformed(problem: string, at = this.#bytes.length): JsonError {
    return unread(`it is not JSON: ${problem} (at byte ${at})`);
  }
}

function frameAt(value: Container, from: number): Frame {
  return { value, from, carried: "", name: undefined, held: undefined, count: 0 };
}

/** A member as `JSON.parse` makes it, whatever its name. */
function setMember(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== "__proto__") object[name] = value;
  else {
    const member = { value, writable: true, enumerable: true, configurable: true };
    Object.defineProperty(object, name, member);
  }
}

function tooMany(value: Container): JsonError {
  return unread(
    Array.isArray(value)
      ? `it has an array of more than ${MAX_ITEMS} items`
      : `it has an object of more than ${MAX_MEMBERS} members`,
  );
}
