/**
 * The smallest pieces of an EBNF grammar: names, literals, classes, bounds and marks.
 *
 * @module
 */

import { type CodePoints, codePoints, invert } from "../automaton/code_points.ts";
import type { GrammarError } from "../grammar_error.ts";
import { type Bounds, GrammarScanner } from "./grammar_scanner.ts";

const NAME = /[A-Za-z0-9_-][A-Za-z0-9_.-]*/y;
const BOUNDS = /\{[ \t]*(?=[0-9]|,[ \t]*[0-9])([0-9]*)[ \t]*(?:(,)[ \t]*([0-9]*)[ \t]*)?\}/y;

/** Letters behind a backslash that stand for a control character, as in C. */
const CONTROLS: Readonly<Record<string, number>> = {
  "0": 0,
  a: 7,
  b: 8,
  t: 9,
  n: 10,
  v: 11,
  f: 12,
  r: 13,
  e: 27,
};

/** Characters behind a backslash that stand for themselves. */
const SELF_IN_TEXT = /["'?\\[\]]/;
const SELF_IN_CLASS = /[\^$\\.*+?(){}|/\-"'[\]]/;

const HEX_LENGTHS: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

/** A place in a grammar. */
export class EbnfScanner extends GrammarScanner {
  /** Goes on behind white space and comments. */
  skipSpace(): void {
    while (this.match(/[ \t\r\n]+/y) !== undefined || this.match(/#[^\r\n]*/y) !== undefined);
  }

  readName(): string | undefined {
    return this.match(NAME)?.[0];
  }

  /** Whether the position is the first on its line that is not white space. */
  beginsLine(position: number): boolean {
    let at = position;
    while (at > 0 && /[ \t]/.test(this.source[at - 1]!)) at -= 1;
    return at === 0 || /[\r\n]/.test(this.source[at - 1]!);
  }

  /** Reads on from a `{`. */
  readBounds(): Bounds {
    const { position } = this;
    const match = this.match(BOUNDS);
    if (match === undefined) {
      throw this.malformed('bounds are "{m}", "{m,}", "{,n}" or "{m,n}"', position);
    }
    return this.bounds(match, position);
  }

  /** Reads on from behind the quote. */
  readLiteral(quote: string): string {
    const open = this.position - 1;
    const parts: string[] = [];
    while (!this.skip(quote)) {
      const run = this.match(/[^"'\\\r\n]+|["']/y)?.[0];
      parts.push(run ?? String.fromCodePoint(this.#readEscape(SELF_IN_TEXT, open)));
    }
    const text = parts.join("");
    if (/\p{Surrogate}/u.test(text)) throw this.#halfPair(open);
    return text;
  }

  /** Reads on from behind the `[`. */
  readClass(): CodePoints {
    const open = this.position - 1;
    const negated = this.skip("^");
    const ranges: [number, number][] = [];
    while (!this.skip("]")) {
      const { position } = this;
      const first = this.#readMember(open);
      const isRange = this.sees("-") && !this.sees("-]");
      if (isRange) this.skip("-");
      const last = isRange ? this.#readMember(open) : first;
      if (first > last) {
        throw this.malformed(`the range "${this.since(position)}" is out of order`, position);
      }
      ranges.push([first, last]);
    }
    if (ranges.length === 0) throw this.malformed("the class has no characters", open);
    const set = codePoints(ranges);
    return negated ? invert(set) : set;
  }

  #readMember(open: number): number {
    const character = this.match(/[^\\\r\n]/uy)?.[0];
    const point = character?.codePointAt(0) ?? this.#readEscape(SELF_IN_CLASS, open);
    if (point >= 0xd800 && point < 0xe000) throw this.#halfPair(open);
    return point;
  }

  #halfPair(position: number): GrammarError {
    return this.malformed("UTF-8 cannot spell half a surrogate pair", position);
  }

  /**
   * @param self Characters that stand for themselves.
   * @param open Where what is being read begins.
   */
  #readEscape(self: RegExp, open: number): number {
    const { position } = this;
    if (!this.skip("\\")) {
      throw this.malformed(`what begins with ${this.source[open]} does not end on its line`, open);
    }
    const character = this.next();
    if (character === "u") {
      const pair = this.match(/([Dd][89ABab][0-9A-Fa-f]{2})\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})/y);
      if (pair !== undefined) {
        const [high, low] = [pair[1]!, pair[2]!].map((unit) => Number.parseInt(unit, 16));
        return String.fromCharCode(high!, low!).codePointAt(0)!;
      }
    }
    const length = HEX_LENGTHS[character];
    if (length !== undefined) return this.#readHex(character, length);
    const control = CONTROLS[character];
    if (control !== undefined) return control;
    if (character !== "" && self.test(character)) return character.codePointAt(0)!;
    throw this.error(
      `Cannot use the escape "\\${character}": the dialect does not have it`,
      position,
    );
  }

  #readHex(letter: string, length: number): number {
    const position = this.position - 2;
    const digits = this.source.slice(this.position, this.position + length);
    if (digits.length < length || !/^[0-9A-Fa-f]+$/.test(digits)) {
      throw this.malformed(`"\\${letter}" needs ${length} hexadecimal digits`, position);
    }
    this.position += length;
    if (letter === "x" && /[0-9A-Fa-f]/.test(this.peek())) {
      throw this.malformed('dialects disagree where "\\x" ends here, write "\\u"', position);
    }
    const point = Number.parseInt(digits, 16);
    if (point > 0x10ffff) throw this.malformed(`U+${digits} is not a code point`, position);
    return point;
  }
}
