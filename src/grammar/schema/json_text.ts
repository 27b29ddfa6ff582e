/**
 * JSON text -> values, losing nothing: numbers keep all their digits and their spelling, keys their
 * order.
 *
 * `JSON.parse` rounds 9223372036854775807 up and moves the key "10" in front of "a"; a schema read
 * like that would be enforced for other numbers and in another order than it says. A key that
 * stands twice in an object is refused, as readers differ on which one counts.
 *
 * Works without recursion, so that no depth needs a deep stack.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import { GrammarError } from "../grammar_error.ts";
import {
  ExactNumber,
  type JsonObject,
  type JsonValue,
  keepOrder,
  keepSpelling,
} from "./json_value.ts";
import { compareDecimals, decimalOf, parseDecimal } from "./numbers/decimal.ts";
import { checkCount, checkDepth } from "./schema_size.ts";

const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"/sy;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const NAME = /true|false|null/y;

/** A whole number that every double of its size has a place for. */
const SHORT_NUMBER = /^-?\d{1,15}$/;

const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** Of reading a value, and of each UTF-16 unit of it. */
const VALUE_EFFORT = 0.5;
const UNIT_EFFORT = 0.005;

/**
 * An empty prototype of objects. Without any, V8 would keep each object as a dictionary, which takes
 * several times as long and as much memory.
 */
const NO_NAMES: object = Object.create(null);

/** An object or array that is not closed yet. */
interface Container {
  readonly value: JsonValue[] | { [key: string]: JsonValue };
  /** Of an object, in order. */
  readonly keys: string[];
}

/**
 * @throws {GrammarError} with the position, for what is not JSON or has a key twice; and when the
 * value is larger than a schema may be.
 */
export function parseJson(text: string): JsonValue {
  spendEffort(UNIT_EFFORT * text.length);
  return new JsonReader(text).read();
}

/** The number that a JSON text spells. */
export function readNumber(text: string): number | ExactNumber {
  if (SHORT_NUMBER.test(text)) return Number(text);
  const exact = parseDecimal(text);
  if (exact === undefined)
    throw new GrammarError(`Cannot read the number ${text}: it is too large`);
  const value = Number(text);
  const isSame = Number.isFinite(value) && compareDecimals(decimalOf(value), exact) === 0;
  return isSame ? value : new ExactNumber(exact);
}

class JsonReader {
  readonly #text: string;
  #position = 0;
  /** Values so far. */
  #count = 0;
  /** Of the number that was read last, until it has its place. */
  #spelling: string | undefined;
  readonly #open: Container[] = [];

  constructor(text: string) {
    this.#text = text;
  }

  read(): JsonValue {
    for (;;) {
      let value = this.#readValue();
      // A container that was just opened is entered; all else is added to what is around it.
      while (value !== undefined) {
        const container = this.#open.at(-1);
        if (container === undefined) return this.#finish(value);
        this.#add(container, value);
        value = this.#readSeparator(container);
      }
    }
  }

  /** The next value, or nothing when a container with content begins. */
  #readValue(): JsonValue | undefined {
    spendEffort(VALUE_EFFORT);
    this.#count += 1;
    checkCount(this.#count);
    checkDepth(this.#open.length);
    if (this.#skip("{"))
      return this.#openContainer({ value: Object.create(NO_NAMES), keys: [] }, "}");
    if (this.#skip("[")) return this.#openContainer({ value: [], keys: [] }, "]");
    const string = this.#readString();
    if (string !== undefined) return string;
    const number = this.#match(NUMBER);
    if (number !== undefined) {
      const value = readNumber(number);
      if (number !== String(value)) this.#spelling = number;
      return value;
    }
    const name = this.#match(NAME);
    return name === undefined ? this.#refuse() : (JSON.parse(name) as JsonValue);
  }

  #readString(): string | undefined {
    return this.#readPlainString() ?? this.#readEscapedString();
  }

  /** Without escapes, as most strings are. */
  #readPlainString(): string | undefined {
    const begin = this.#position;
    if (this.#text.charCodeAt(begin) !== QUOTE) return undefined;
    for (let end = begin + 1; ; end++) {
      const unit = this.#text.charCodeAt(end);
      if (unit === QUOTE) {
        this.#position = end + 1;
        return this.#text.slice(begin + 1, end);
      }
      // At the end of the text it is not a number.
      if (!(unit >= SPACE) || unit === BACKSLASH) return undefined;
    }
  }

  #readEscapedString(): string | undefined {
    const quoted = this.#match(STRING);
    if (quoted === undefined) return undefined;
    try {
      return JSON.parse(quoted) as string;
    } catch {
      return this.#refuse();
    }
  }

  #openContainer(container: Container, close: string): JsonValue | undefined {
    if (this.#skip(close)) return container.value;
    this.#open.push(container);
    if (!Array.isArray(container.value)) this.#readKey(container);
    return undefined;
  }

  #readKey({ value, keys }: Container): void {
    this.#skipSpace();
    const key = this.#readString() ?? this.#refuse();
    if (Object.hasOwn(value, key))
      this.#refuse(`the key ${JSON.stringify(key)} stands twice in an object`);
    keys.push(key);
    if (!this.#skip(":")) this.#refuse();
  }

  #add({ value, keys }: Container, part: JsonValue): void {
    const place = Array.isArray(value) ? value.length : keys.at(-1)!;
    (value as { [place: string | number]: JsonValue })[place] = part;
    if (this.#spelling === undefined) return;
    keepSpelling(value, place, this.#spelling);
    this.#spelling = undefined;
  }

  /** Behind a part: the container, when it ends here. */
  #readSeparator(container: Container): JsonValue | undefined {
    const isArray = Array.isArray(container.value);
    if (this.#skip(",")) {
      if (!isArray) this.#readKey(container);
      return undefined;
    }
    if (!this.#skip(isArray ? "]" : "}")) this.#refuse();
    this.#open.pop();
    if (!isArray) keepOrder(container.value as JsonObject, container.keys);
    return container.value;
  }

  #finish(value: JsonValue): JsonValue {
    this.#skipSpace();
    if (this.#position < this.#text.length) this.#refuse();
    return value;
  }

  #skipSpace(): void {
    for (; this.#position < this.#text.length; this.#position++) {
      const unit = this.#text.charCodeAt(this.#position);
      if (unit > SPACE || !isSpace(unit)) return;
    }
  }

  #skip(character: string): boolean {
    this.#skipSpace();
    if (this.#text[this.#position] !== character) return false;
    this.#position += 1;
    return true;
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#position;
    const found = pattern.exec(this.#text)?.[0];
    if (found === undefined) return undefined;
    this.#position += found.length;
    return found;
  }

  #refuse(state = "it is not JSON"): never {
    throw new GrammarError(`Cannot read the schema: ${state}`, { position: this.#position });
  }
}

/** Of the white space that JSON has. */
function isSpace(unit: number): boolean {
  return unit === SPACE || unit === 0x09 || unit === 0x0a || unit === 0x0d;
}
