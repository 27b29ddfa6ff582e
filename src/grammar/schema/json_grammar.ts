/**
 * The rules of JSON (RFC 8259) that grammars for it share.
 *
 * | rule | matches |
 * |---|---|
 * | `value` | any value |
 * | `object`, `array`, `string`, `number` | any value of that type |
 * | `character` | one character inside a string, in any spelling |
 * | `space` | white space between two tokens |
 *
 * A string means Unicode text: half a surrogate pair, which JSON can spell as an escape, is none.
 *
 * @module
 */

import { automatonOf } from "../code_point_automaton.ts";
import { ANY_CODE_POINT } from "../code_points.ts";
import {
  characters,
  choice,
  EMPTY,
  type Expression,
  optional,
  regular,
  repeat,
  rule,
  sequence,
  text,
} from "../expression.ts";
import { insideJsonString } from "../json_string.ts";
import { JSON_NUMBER } from "./number_language.ts";

export interface WhitespaceOptions {
  /**
   * The most characters of white space between two tokens; 0 is compact JSON. There is never any
   * before or after the whole value.
   *
   * @default 40
   */
  readonly maxWhitespace?: number | undefined;
}

/** Room for a line break and ten levels of indentation, yet no room to never come to an end. */
const MAX_WHITESPACE = 40;

export const SPACE = rule("space");
export const QUOTE = text('"');
export const COMMA = sequence(text(","), SPACE);
export const COLON = sequence(SPACE, text(":"), SPACE);

const CHARACTER = regular(insideJsonString(automatonOf(characters(ANY_CODE_POINT))));

const WHITE = characters(Array.from(" \t\n\r", (c) => [c.charCodeAt(0), c.charCodeAt(0)]));
const VALUE = rule("value");
const MEMBER = sequence(rule("string"), COLON, VALUE);
const SCALARS = [rule("string"), rule("number"), text("true"), text("false"), text("null")];

const RULES: ReadonlyMap<string, Expression> = new Map([
  ["value", choice(rule("object"), rule("array"), ...SCALARS)],
  ["object", enclosed("{", listOf(MEMBER), "}")],
  ["array", enclosed("[", listOf(VALUE), "]")],
  ["string", sequence(QUOTE, repeat(rule("character")), QUOTE)],
  ["character", CHARACTER],
  ["number", JSON_NUMBER],
]);

/** Names of the rules. */
export const JSON_RULES: ReadonlySet<string> = new Set(["space", ...RULES.keys()]);

/** Rules that every grammar for JSON shares. */
export function jsonRules({
  maxWhitespace = MAX_WHITESPACE,
}: WhitespaceOptions = {}): Map<string, Expression> {
  const space = maxWhitespace === 0 ? EMPTY : repeat(WHITE, { max: maxWhitespace });
  return new Map([["space", space], ...RULES]);
}

/** One or more, with commas. White space stands behind each. */
function listOf(item: Expression): Expression {
  const one = sequence(item, SPACE);
  return optional(sequence(one, repeat(sequence(COMMA, one))));
}

/** @param content With white space at its end, unless it is empty. */
export function enclosed(open: string, content: Expression, close: string): Expression {
  return sequence(text(open), SPACE, content, text(close));
}
