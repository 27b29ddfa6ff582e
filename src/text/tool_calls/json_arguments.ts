/**
 * JSON within a growing text, copied as it is written.
 *
 * Nothing is parsed that need not be: a model's arguments reach the client letter by letter. Marks
 * inside of strings are part of the strings.
 *
 * @module
 */
import { type PieceReader, type Reading, SPACE } from "../piece_reader.ts";

/** Takes text, a character or some white space at a time. */
type Write = (text: string) => void;

/** Reads the marks that end a call; false where something else is next. */
export type ReadEnd = (reader: PieceReader) => Reading<boolean>;

/** First characters of what may end a call. */
const MAY_END = /[\s<[`]/;
const WORD = /[\w.+-]/;
/** Characters that may end something, or begin a string, a bracket or an escape. */
const SPECIAL = /[\s<[\]{}"\\`]/;
/** Those of a string that only follow each other. */
const LETTER = /[^"\\\n]/;

/**
 * Copies arguments, without the white space around them: one JSON object or, where there is none,
 * whatever stands before the end of the call. Malformed JSON ends with the call too.
 */
export function* copyArguments(reader: PieceReader, write: Write, readEnd: ReadEnd): Reading<void> {
  const first = yield* reader.skipSpace();
  yield* copyUntil(reader, write, { readEnd, scanner: first === "{" ? new JsonScanner() : null });
}

/** Copies one JSON value: an object, a list, a string or a word. Malformed ones end with the call. */
export function* copyValue(reader: PieceReader, write: Write, readEnd: ReadEnd): Reading<void> {
  const first = yield* reader.skipSpace();
  if (first === "{" || first === "[") {
    yield* copyUntil(reader, write, { readEnd, scanner: new JsonScanner() });
  } else if (first === '"') {
    const start = reader.position;
    yield* readString(reader);
    write(reader.textSince(start));
  } else {
    write(yield* reader.takeWhile(WORD));
  }
}

interface CopyOptions {
  readonly readEnd: ReadEnd;
  /** Tells where the value is complete; null where only the call's end can tell. */
  readonly scanner: JsonScanner | null;
}

function* copyUntil(
  reader: PieceReader,
  write: Write,
  { readEnd, scanner }: CopyOptions,
): Reading<void> {
  for (;;) {
    const character = yield* reader.peek();
    if (character === undefined) return;
    // A string in JSON has no line feed.
    const mayEnd = MAY_END.test(character) && (character === "\n" || !scanner?.isQuoted);
    if (mayEnd && (yield* reader.looksAt(readEnd))) return;
    // Once no end follows white space, none follows a part of it.
    const space = mayEnd ? yield* reader.takeWhile(SPACE) : "";
    const plain = mayEnd || scanner?.isEscaped ? "" : reader.takeUntil(SPECIAL);
    if (plain !== "") {
      write(plain);
      continue;
    }
    if (space === "") reader.skip();
    const taken = space || character;
    write(taken);
    if (scanner?.push(taken)) return;
  }
}

/** Follows the brackets and strings of a JSON value that begins with a bracket. */
class JsonScanner {
  #depth = 0;
  #inString = false;
  #escaped = false;
  #hasLineFeed = false;

  /** Whether the place is inside of a string; behind a line feed it is not, whatever the quotes say. */
  get isQuoted(): boolean {
    return this.#inString && !this.#hasLineFeed;
  }

  /** Whether the next character is escaped, whatever it is. */
  get isEscaped(): boolean {
    return this.#escaped;
  }

  /**
   * Takes a character, or white space.
   *
   * @returns Whether the value is complete.
   */
  push(character: string): boolean {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false;
      else if (character === "\\") this.#escaped = true;
      else if (character === '"') this.#inString = false;
      else if (character.includes("\n")) this.#hasLineFeed = true;
      return false;
    }
    if (character === '"') {
      this.#inString = true;
      this.#hasLineFeed = false;
    } else if (character === "{" || character === "[") {
      this.#depth++;
    } else if (character === "}" || character === "]") {
      this.#depth--;
    }
    return this.#depth === 0;
  }
}

/** Reads a JSON string; undefined where there is none or it is malformed. */
export function* readString(reader: PieceReader): Reading<string | undefined> {
  const start = reader.position;
  if (!(yield* reader.take('"'))) return undefined;
  for (let escaped = false; ; ) {
    if (!escaped) yield* reader.takeWhile(LETTER);
    const character = yield* reader.peek();
    if (character === undefined || character === "\n") return undefined;
    reader.skip();
    if (escaped) escaped = false;
    else if (character === "\\") escaped = true;
    else if (character === '"') break;
  }
  try {
    return JSON.parse(reader.textSince(start)) as string;
  } catch {
    return undefined; // an escape that JSON does not have
  }
}
