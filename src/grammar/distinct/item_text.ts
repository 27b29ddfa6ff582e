/**
 * Items as they are written, complete or not, made comparable.
 *
 * @module
 */

import { GrammarError } from "../grammar_error.ts";
import { BYTE_SET_WORDS } from "../masks/utf8_bytes.ts";
import { parseJson } from "../schema/json_text.ts";
import { canonicalText, type JsonValue } from "../schema/json_value.ts";
import { mayBecome, mayBeginNumber } from "./item_beginning.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are ASCII too.
const ASCII = /^[\x00-\x7f]*$/;

/** The text of bytes that are kept as a string of one unit each. */
function decode(bytes: string): string {
  if (ASCII.test(bytes)) return bytes;
  const units = new Uint8Array(bytes.length);
  for (let i = 0; i < units.length; i++) units[i] = bytes.charCodeAt(i);
  return decoder.decode(units);
}

/** A string of ASCII without escapes. */
const PLAIN_STRING = /^"[ -!#-[\]-~]*"$/;

/** An item that is complete. */
export class Item {
  /** As it is written, a unit for each byte. */
  readonly bytes: string;
  #key: string | undefined;
  #plain: string | undefined;
  #value: unknown;
  #bytesOfPlain: Uint32Array | undefined;

  constructor(bytes: string) {
    this.bytes = bytes;
  }

  /** The same for equal values. */
  get key(): string {
    this.#key ??= keyOf(this.bytes);
    return this.#key;
  }

  get plain(): string {
    this.#plain ??= plainForm(this.bytes);
    return this.#plain;
  }

  /** The bytes of its plain form as a set: bit `b % 32` of word `b / 32`. */
  get bytesOfPlain(): Uint32Array {
    if (this.#bytesOfPlain === undefined) {
      this.#bytesOfPlain = new Uint32Array(BYTE_SET_WORDS);
      for (const byte of encoder.encode(this.plain)) {
        this.#bytesOfPlain[byte >>> 5]! |= 1 << (byte & 31);
      }
    }
    return this.#bytesOfPlain;
  }

  /** Whether its plain form has a byte. */
  has(byte: number): boolean {
    return ((this.bytesOfPlain[byte >>> 5]! >>> (byte & 31)) & 1) === 1;
  }

  /** Its value, but for what no program holds; undefined where it is beyond numbers. */
  get value(): unknown {
    this.#value ??= parsed(this.plain);
    return this.#value;
  }
}

function parsed(plain: string): unknown {
  try {
    return JSON.parse(plain);
  } catch {
    return undefined;
  }
}

/** A text that two items share exactly when they are the same value to JSON Schema. */
export function keyOf(bytes: string): string {
  const text = bytes.trim();
  if (PLAIN_STRING.test(text)) return text;
  return canonicalText(readItem(decode(text)));
}

function readItem(text: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    // Keys that stand twice, of which the last one counts, and numbers that no program holds.
    return JSON.parse(text, finite) as JsonValue;
  }
}

/** JSON writes infinite numbers as null, which they are not: half a pair stands in no string. */
function finite(_: string, value: unknown): unknown {
  return typeof value === "number" && !Number.isFinite(value) ? `\ud800${value}` : value;
}

/** A string up to its end or that of the text, a number, white space, or another character. */
const PIECE = /"(?:[^"\\]|\\.)*(?:"|\\?$)|-?\d[\d.eE+-]*|\s+|[\s\S]/gy;
/** A string of ASCII without escapes or the beginning of one, or none at all, or a number at its end. */
const PLAIN_ITEM = /^(?:"[ !#-[\]-~]*"?|-?\d[\d.eE+-]*)?$/;
const NUMBER = /^-?\d/;
const UNFINISHED_ESCAPE = /\\(?:u[0-9a-fA-F]{0,3})?$/;
/** Half of a pair, whose other half may follow. */
const UNFINISHED_PAIR = /\\u[dD][89abAB][0-9a-fA-F]{2}$/;

/**
 * The beginning of an item in a form that equal values have in common: without white space, escapes
 * and spellings of numbers, but for the number at its end.
 */
export function plainForm(bytes: string): string {
  if (PLAIN_ITEM.test(bytes)) return bytes;
  const pieces = decode(bytes).match(PIECE) ?? [];
  return pieces.map((piece, i) => plainPiece(piece, i === pieces.length - 1)).join("");
}

function plainPiece(piece: string, isLast: boolean): string {
  if (piece.startsWith('"')) {
    if (!piece.includes("\\")) return piece.replace(/\uFFFD+$/, "");
    return plainString(piece);
  }
  if (NUMBER.test(piece)) return isLast ? piece : String(Number(piece));
  return piece.trim() === "" ? "" : piece;
}

/** Without the end of an escape or a character that is not complete. */
function plainString(piece: string): string {
  const isClosed = isComplete(piece);
  const inner = isClosed ? piece : `${unfinished(piece)}"`;
  try {
    const text = JSON.stringify(JSON.parse(inner));
    return isClosed ? text : text.slice(0, -1).replace(/\uFFFD+$/, "");
  } catch {
    // What no rule tells apart is taken for the beginning of anything.
    return '"';
  }
}

function isComplete(piece: string): boolean {
  return /^"(?:[^"\\]|\\.)*"$/.test(piece);
}

function unfinished(piece: string): string {
  const whole = /(?:^|[^\\])(?:\\\\)*\\(?:u[0-9a-fA-F]{0,3})?$/.test(piece)
    ? piece.replace(UNFINISHED_ESCAPE, "")
    : piece;
  return whole.replace(UNFINISHED_PAIR, "");
}

/** An object outside of strings. */
const IN_OBJECT = /^(?:[^"{]|"(?:[^"\\]|\\.)*")*\{/;
/** A number, or the sign that one begins with. */
const NUMBER_AT_END = /-?\d[\d.eE+-]*$|-$/;
const NUMBER_HERE = /-?\d[\d.eE+-]*/y;

/** Whether an item may have a beginning of the plain form. */
export function mayBeginAs({ plain, value }: Item, beginning: string): boolean {
  if (plain.startsWith(beginning)) return true;
  if (beginning.includes("{") && IN_OBJECT.test(beginning)) {
    return value === undefined || mayBecome(value, beginning);
  }
  const tail = NUMBER_AT_END.exec(beginning)?.[0];
  if (tail === undefined) return false;
  const head = beginning.slice(0, beginning.length - tail.length);
  if (!plain.startsWith(head)) return false;
  NUMBER_HERE.lastIndex = head.length;
  const number = NUMBER_HERE.exec(plain)?.[0];
  return number !== undefined && mayBeginNumber(tail, number);
}
