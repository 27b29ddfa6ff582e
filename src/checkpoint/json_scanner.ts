/**
 * Strict reading of JSON whose shape is known beforehand, straight from its bytes.
 *
 * `JSON.parse` keeps the last of two equal keys, reads 1.5 and 1e400 as numbers, and needs the whole
 * text as a string beside its bytes; a file header of up to 100 MB deserves better. Every fault is a
 * `SyntaxError`; the caller knows the file's name and says it.
 *
 * @module
 */

const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COLON = 0x3a;
const COMMA = 0x2c;
const DIGIT_0 = 0x30;
const DIGIT_9 = 0x39;
const END = -1;

/** Keys of one object: the largest models have some hundred thousand tensors. */
export const MAX_KEYS = 2 ** 20;
/** Numbers of one list: no tensor has as many dimensions. */
export const MAX_NUMBERS = 64;

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class JsonScanner {
  readonly #bytes: Uint8Array;
  /** Next byte to look at. */
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Reads an object of at most 2^20 keys; `onField` must consume the value of the key it gets. */
  object(onField: (key: string) => void): void {
    this.#take(OPEN_BRACE);
    if (this.#peek() === CLOSE_BRACE) {
      this.#at++;
      return;
    }
    const seen = new Set<string>();
    do {
      const key = this.string();
      if (seen.has(key)) throw new SyntaxError(`key ${JSON.stringify(key)} occurs twice`);
      if (seen.size === MAX_KEYS) throw new SyntaxError(`an object has more than ${MAX_KEYS} keys`);
      seen.add(key);
      this.#take(COLON);
      onField(key);
    } while (this.#more(CLOSE_BRACE));
  }

  string(): string {
    this.#take(QUOTE);
    const start = this.#at - 1;
    for (;;) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) throw new SyntaxError("it ends inside a string");
      if (byte === QUOTE) break;
      if (byte === BACKSLASH) this.#at++;
    }
    const text = utf8.decode(this.#bytes.subarray(start, this.#at));
    return JSON.parse(text) as string;
  }

  /** An array of at most 64 whole numbers that are not negative and exact in a double. */
  naturals(): number[] {
    this.#take(OPEN_BRACKET);
    const values: number[] = [];
    if (this.#peek() === CLOSE_BRACKET) {
      this.#at++;
      return values;
    }
    do {
      if (values.length === MAX_NUMBERS) {
        throw new SyntaxError(`a list has more than ${MAX_NUMBERS} numbers at byte ${this.#at}`);
      }
      values.push(this.#natural());
    } while (this.#more(CLOSE_BRACKET));
    return values;
  }

  /** Accepts nothing but white space up to the last byte. */
  end(): void {
    if (this.#peek() !== END) throw this.#unexpected();
  }

  #natural(): number {
    this.#peek();
    const start = this.#at;
    let value = 0;
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined || byte < DIGIT_0 || byte > DIGIT_9) break;
      value = value * 10 + (byte - DIGIT_0);
      if (value > Number.MAX_SAFE_INTEGER) {
        throw new SyntaxError(`the number at byte ${start} is too large`);
      }
      this.#at++;
    }
    const digits = this.#at - start;
    if (digits === 0 || (digits > 1 && this.#bytes[start] === DIGIT_0)) {
      throw new SyntaxError(`a whole number, not negative, is wanted at byte ${start}`);
    }
    return value;
  }

  /** After an element: true past a comma, false past `close`. */
  #more(close: number): boolean {
    const byte = this.#peek();
    if (byte !== COMMA && byte !== close) throw this.#unexpected();
    this.#at++;
    return byte === COMMA;
  }

  #take(wanted: number): void {
    if (this.#peek() !== wanted) throw this.#unexpected(wanted);
    this.#at++;
  }

  /** The next byte that is not white space, or END; `#at` is left on it. */
  #peek(): number {
    for (;;) {
      const byte = this.#bytes[this.#at];
      if (byte === undefined) return END;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) return byte;
      this.#at++;
    }
  }

  #unexpected(wanted?: number): SyntaxError {
    const byte = this.#peek();
    const what = byte === END ? "the end" : JSON.stringify(String.fromCharCode(byte));
    const instead = wanted === undefined ? "" : ` instead of "${String.fromCharCode(wanted)}"`;
    return new SyntaxError(`unexpected ${what} at byte ${this.#at}${instead}`);
  }
}
