/**
 * The smallest pieces of a Lark grammar: names, literals, ranges, expressions, bounds and JSON.
 *
 * @module
 */

import { type Bounds, GrammarScanner } from "../ebnf/grammar_scanner.ts";
import type { Lookaheads } from "../ebnf/lookaheads.ts";
import { characters, type Expression, sequence, text } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { parseTerminal } from "./regex_lookahead.ts";

const SPACE = /[ \t\r]+|(?:#|\/\/)[^\n]*/y;
const LITERAL = /"((?:[^"\\\n]|\\[^\n])*)"/y;
const REGEX = /\/((?:[^/\\\n]|\\[^\n])+)\/([a-z]*)/y;
const BRACES = /\{[ \t]*(?=[0-9]|,[ \t]*[0-9])([0-9]*)[ \t]*(?:(,)[ \t]*([0-9]*)[ \t]*)?\}/y;
const TILDE = /~[ \t]*([0-9]+)[ \t]*(?:(\.\.)[ \t]*([0-9]+))?/y;
const ESCAPES = /\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|(.))/gu;

/** Letters behind a backslash that stand for a control character. */
const CONTROLS: Readonly<Record<string, string>> = {
  b: "\b",
  f: "\f",
  n: "\n",
  r: "\r",
  t: "\t",
  v: "\v",
};

/** A place in a Lark grammar. */
export class LarkScanner extends GrammarScanner {
  /** Goes on behind white space and comments of the line. */
  skipInLine(): void {
    while (this.match(SPACE) !== undefined);
  }

  /** Goes on behind white space, comments and ends of lines. */
  skipLines(): void {
    do this.skipInLine();
    while (this.skip("\n"));
  }

  readName(): string | undefined {
    return this.match(/[A-Za-z_][A-Za-z0-9_-]*/y)?.[0];
  }

  /** A text `"..."`, one without regard to case `"..."i`, or a range `"a".."z"`. */
  readLiteral(): Expression {
    const { position } = this;
    const value = this.#readText();
    if (!this.skip("..")) return this.skip("i") ? this.#anyCase(value, position) : text(value);
    const points = [value, this.#readText()].map((one) => {
      const point = one.codePointAt(0);
      if (point !== undefined && String.fromCodePoint(point) === one) return point;
      throw this.malformed('each end of a range ".." is one character', position);
    });
    const [first, last] = points as [number, number];
    if (first > last) throw this.malformed("the range is out of order", position);
    return characters([[first, last]]);
  }

  #readText(): string {
    const { position } = this;
    const source = this.match(LITERAL)?.[1];
    if (source === undefined) throw this.malformed("a text does not end on its line", position);
    const value = source.replace(ESCAPES, (whole, short, long, character) => {
      const digits = short ?? long;
      if (digits !== undefined) return String.fromCharCode(Number.parseInt(digits, 16));
      const control = CONTROLS[character];
      if (control !== undefined) return control;
      if (/["'\\/]/.test(character)) return character;
      throw this.error(`Cannot use the escape "${whole}": the dialect does not have it`, position);
    });
    if (/\p{Surrogate}/u.test(value)) {
      throw this.malformed("UTF-8 cannot spell half a surrogate pair", position);
    }
    return value;
  }

  #anyCase(value: string, position: number): Expression {
    const parts = Array.from(value, (character) => {
      const point = character.codePointAt(0)!;
      if (point >= 0x80) {
        throw this.error(
          'Cannot use "i" behind a text that is not ASCII: write the cases',
          position,
        );
      }
      const cases = [character.toLowerCase(), character.toUpperCase()];
      return characters(cases.map((one) => [one.charCodeAt(0), one.charCodeAt(0)] as const));
    });
    return sequence(parts);
  }

  /** An expression `/.../` with flags. */
  readRegex(lookaheads: Lookaheads): Expression {
    const { position } = this;
    const [, pattern, flags = ""] = this.match(REGEX) ?? [];
    if (pattern === undefined)
      throw this.malformed("an expression does not end on its line", position);
    const unknown = /[^imsx]/.exec(flags)?.[0];
    if (unknown !== undefined) {
      throw this.error(`Cannot use the flag "${unknown}": only i, m, s, x are known`, position);
    }
    try {
      return parseTerminal(pattern, { lookaheads, flags, position });
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      throw this.error(error.message, position);
    }
  }

  /** `?`, `*`, `+`, `~3`, `~2..4`, `{3}`, `{2,}`, `{,4}` or `{2,4}`, if one stands here. */
  readBounds(): Bounds | undefined {
    const { position } = this;
    if (this.skip("?")) return { min: 0, max: 1 };
    if (this.skip("*")) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (this.skip("+")) return { min: 1, max: Number.POSITIVE_INFINITY };
    const match = this.match(BRACES) ?? this.match(TILDE);
    return match === undefined ? undefined : this.bounds(match, position);
  }

  /** A JSON object, as text. */
  readJson(): string {
    const { position } = this;
    let depth = 0;
    for (;;) {
      const piece = this.match(/[^"{}]+|"(?:[^"\\]|\\[\s\S])*"|[{}]/y)?.[0];
      if (piece === undefined) throw this.malformed("a JSON object does not end", position);
      if (piece === "{") depth += 1;
      else if (depth === 0) throw this.malformed('a JSON object begins with "{"', position);
      else if (piece === "}" && --depth === 0) return this.since(position);
    }
  }
}
