/**
 * How much a JSON text may hold, told before it is parsed.
 *
 * What `JSON.parse` makes of a text may take twenty times the memory of the text, and nests as deep
 * as the text does, where whatever walks over it by calling itself ends the stack. So the values
 * are counted first, in one pass over the text that makes nothing.
 *
 * @module
 */

/** Levels of lists and objects inside each other; those of published files have under ten. */
export const MAX_JSON_DEPTH = 100;

/** Values and keys: a vocabulary of a quarter of a million pieces with its merges has two million. */
export const MAX_JSON_VALUES = 2 ** 22;

const BACKSLASH = 0x5c;

/** What about a text is beyond the limits; undefined for one to be parsed, which may be no JSON. */
export function jsonExcess(text: string): string | undefined {
  let depth = 0;
  let values = 1;
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case '"':
        i = stringEnd(text, i);
        break;
      case "{":
      case "[":
        values++;
        if (++depth > MAX_JSON_DEPTH) return `it nests deeper than ${MAX_JSON_DEPTH} levels`;
        break;
      case "}":
      case "]":
        depth--;
        break;
      case ",":
      case ":":
        values++;
        break;
    }
    if (values > MAX_JSON_VALUES) return `it holds more than ${MAX_JSON_VALUES} values`;
  }
  return undefined;
}

/** Place of the quote that ends the string which begins at `start`, or the end of the text. */
function stringEnd(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end >= 0; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return end;
  }
  return text.length;
}
