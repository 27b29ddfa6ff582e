/**
 * Literals of Python -> JSON text, as they come: strings, numbers, True, False, None, lists, tuples
 * and dictionaries.
 *
 * @module
 */
import type { PieceReader, Reading } from "../piece_reader.ts";

type Write = (text: string) => void;

const WORDS: ReadonlyMap<string, string> = new Map([
  ["True", "true"],
  ["False", "false"],
  ["None", "null"],
  // Models that mix the two languages up mean these.
  ["true", "true"],
  ["false", "false"],
  ["null", "null"],
]);
const CLOSING: ReadonlyMap<string, string> = new Map([
  ["[", "]"],
  ["(", ")"],
  ["{", "}"],
]);
const ESCAPES: ReadonlyMap<string, string> = new Map([
  ["\n", ""],
  ["\\", "\\"],
  ["'", "'"],
  ['"', '"'],
  ["a", "\x07"],
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
  ["v", "\v"],
]);
/** Escapes by number: how many hexadecimal digits. */
const HEXADECIMAL: ReadonlyMap<string, number> = new Map([
  ["x", 2],
  ["u", 4],
  ["U", 8],
]);
const WORD = /[\w.+-]/;
/** Characters of a string that are written one by one: halves of pairs may be cut apart. */
const SPECIAL = /[\\'"\ud800-\udfff]/;
/** Lists and dictionaries inside of each other. */
export const MAX_DEPTH = 64;
/** Digits of a number in another base than ten: writing one in ten takes a time of their square. */
export const MAX_DIGITS = 1024;

/**
 * Reads one literal and writes it as JSON.
 *
 * @param depth Lists and dictionaries around it.
 * @returns False at what is no literal, or nests too deep; that, and what follows, is unread.
 */
export function* convertLiteral(reader: PieceReader, write: Write, depth = 0): Reading<boolean> {
  const next = yield* reader.skipSpace();
  if (next === '"' || next === "'") {
    yield* convertString(reader, write);
    return true;
  }
  if (next !== undefined && CLOSING.has(next)) {
    return depth < MAX_DEPTH && (yield* convertItems(reader, write, depth + 1));
  }
  const start = reader.position;
  const word = yield* reader.takeWhile(WORD);
  const json = WORDS.get(word) ?? jsonNumber(word);
  if (json === undefined) {
    reader.rewind(start);
    return false;
  }
  write(json);
  return true;
}

/** A list, a tuple or a dictionary. */
function* convertItems(reader: PieceReader, write: Write, depth: number): Reading<boolean> {
  const open = (yield* reader.peek())!;
  const close = CLOSING.get(open)!;
  const isDictionary = open === "{";
  reader.skip();
  write(isDictionary ? "{" : "[");
  for (let count = 0; ; count++) {
    let next = yield* reader.skipSpace();
    if (next === "," && count > 0) {
      reader.skip();
      next = yield* reader.skipSpace();
    } else if (count > 0 && next !== close) {
      return false;
    }
    if (next === close) {
      reader.skip();
      write(isDictionary ? "}" : "]");
      return true;
    }
    if (count > 0) write(", ");
    if (isDictionary && !(yield* convertKey(reader, write))) return false;
    if (!(yield* convertLiteral(reader, write, depth))) return false;
  }
}

/** A key and its colon; JSON's keys are strings. */
function* convertKey(reader: PieceReader, write: Write): Reading<boolean> {
  const next = yield* reader.peek();
  if (next === '"' || next === "'") {
    yield* convertString(reader, write);
  } else {
    const start = reader.position;
    const word = yield* reader.takeWhile(WORD);
    const json = WORDS.get(word) ?? jsonNumber(word);
    if (json === undefined) {
      reader.rewind(start);
      return false;
    }
    write(JSON.stringify(json));
  }
  if ((yield* reader.skipSpace()) !== ":") return false;
  reader.skip();
  write(": ");
  return true;
}

/** A string in quotes, of one or three. One that the text cuts off is cut off in JSON too. */
function* convertString(reader: PieceReader, write: Write): Reading<void> {
  const quote = (yield* reader.peek())!;
  const isLong = yield* reader.take(quote.repeat(3));
  if (!isLong) yield* reader.take(quote);
  const end = isLong ? quote.repeat(3) : quote;
  write('"');
  for (;;) {
    const letters = reader.takeUntil(SPECIAL);
    if (letters !== "") write(quoted(letters));
    const character = yield* reader.peek();
    if (character === undefined) return;
    if (character === quote && (yield* reader.take(end))) break;
    reader.skip();
    if (character === "\\") write(quoted(yield* readEscape(reader)));
    else write(quoted(character));
  }
  write('"');
}

/** What stands for the escape behind a backslash; one that Python does not know stays as it is. */
function* readEscape(reader: PieceReader): Reading<string> {
  const start = reader.position;
  const kind = yield* reader.peek();
  if (kind === undefined) return "";
  reader.skip();
  const plain = ESCAPES.get(kind);
  if (plain !== undefined) return plain;
  if (/[0-7]/.test(kind)) {
    let digits = kind;
    for (let next = yield* reader.peek(); digits.length < 3 && next && /[0-7]/.test(next); ) {
      digits += next;
      reader.skip();
      next = yield* reader.peek();
    }
    return String.fromCharCode(Number.parseInt(digits, 8));
  }
  let digits = "";
  for (let left = HEXADECIMAL.get(kind) ?? 0; left > 0; left--) {
    const next = yield* reader.peek();
    if (next === undefined || !/[\da-fA-F]/.test(next)) break;
    digits += next;
    reader.skip();
  }
  const code = Number.parseInt(digits, 16);
  if (digits.length === HEXADECIMAL.get(kind) && code <= 0x10ffff)
    return String.fromCodePoint(code);
  return `\\${reader.textSince(start)}`;
}

/** Text as it stands between JSON's quotes. */
function quoted(text: string): string {
  // A half of a pair that was cut is joined with the other one only later, so it is no escape.
  return /^[\ud800-\udfff]$/.test(text) ? text : JSON.stringify(text).slice(1, -1);
}

/** A number of Python as JSON writes it. */
function jsonNumber(word: string): string | undefined {
  const text = word.replaceAll(/(?<=\w)_(?=\w)/g, "").replace(/^\+/, "");
  if (/^-?0[xob]\w+$/i.test(text)) {
    if (text.length > MAX_DIGITS) return undefined;
    const sign = text.startsWith("-") ? "-" : "";
    try {
      return sign + String(BigInt(text.slice(sign.length)));
    } catch {
      return undefined; // digits that the base does not have
    }
  }
  const parts = /^(-?)(\d*)(?:\.(\d*))?(e[+-]?\d+)?$/i.exec(text);
  if (parts === null) return undefined;
  const [, sign, whole = "", fraction, exponent = ""] = parts;
  if (whole === "" && !fraction) return undefined;
  const shown = whole.replace(/^0+(?=\d)/, "") || "0";
  return `${sign}${shown}${fraction === undefined ? "" : `.${fraction || "0"}`}${exponent}`;
}
