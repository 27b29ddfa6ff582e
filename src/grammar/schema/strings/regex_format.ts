/**
 * The format `regex`: patterns of ECMAScript with the flag `u`.
 *
 * Patterns nest, so they take rules of a grammar and not a regular language. What a pattern may refer
 * to, only memory could tell: no back references are offered, and one group at most has a name. Where
 * other facts are joined with the format, groups nest one deep.
 *
 * @module
 */

import { automatonOf } from "../../automaton/code_point_automaton.ts";
import {
  choice,
  type Expression,
  optional,
  regular,
  repeat,
  rule,
  sequence,
  text,
} from "../../expression.ts";
import { insideJsonString, PLAIN_ASCII } from "../../json_string.ts";
import { parseRegex } from "../../regex/parse_regex.ts";
import { Language } from "./language.ts";

const HEX = "[0-9A-Fa-f]";
const ESCAPES = `[dDwWsSfnrtv^$\\\\.*+?()[\\]{}|\\/]|c[A-Za-z]|x${HEX}{2}|u(?:${HEX}{4}|\\{(?:10|${HEX})?${HEX}{1,4}\\})`;
const PROPERTIES =
  "L[ultmo]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?|C[cfn]?|Letter|Number|Punctuation|Symbol|Alphabetic|" +
  "ASCII|Emoji|Lowercase|Uppercase|White_Space|(?:Script|sc)=(?:Arabic|Cyrillic|Greek|Han|Hangul|Hebrew|Hiragana|Katakana|Latin|Thai)";
const ESCAPE = `\\\\(?:${ESCAPES}|[pP]\\{(?:${PROPERTIES})\\})`;
const PLAIN = "[^\\^$\\\\.*+?()[\\]{}|]";

/** Of a class: each character, or group of characters, that a range may begin with. */
const RANGES = (() => {
  const begins = Array.from("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
  // Neither `[`, `\\` nor `]`, which lie between the letters.
  const ends = (c: string) => (c > "Z" ? `[${c}-\\u{10FFFF}]` : `[${c}-Z^-\\u{10FFFF}]`);
  const exact = begins.map((c) => `${c}-${ends(c)}`);
  const coarse = (first: number, last: number) =>
    `[${hex(first)}-${hex(last)}]-[${hex(last + 1)}-\\u{10FFFF}]`;
  const groups = [
    "[ -,.\\/:-@[^-`{-}]-[~-\\u{10FFFF}]",
    coarse(0xa0, 0xdf),
    coarse(0xe0, 0xef),
    coarse(0xf0, 0x3ff),
    coarse(0x400, 0x42f),
    coarse(0x430, 0x4dff),
    coarse(0x4e00, 0x4e00),
  ];
  return [...exact, ...groups].join("|");
})();

function hex(point: number): string {
  return `\\u{${point.toString(16)}}`;
}

const CLASS = `\\[\\^?-?(?:[^\\\\\\]\\-^]|${RANGES}|${ESCAPE}|\\\\[b\\-])*-?\\]`;
const COUNTS = (() => {
  const ordered = Array.from("0123456789", (n) => `${n},(?:[${n}-9]|[1-9]\\d{1,2})`);
  const tens = Array.from("12345678", (n) => `${n}\\d,[${Number(n) + 1}-9]\\d`);
  return `\\{(?:\\d{1,4},?|${ordered.join("|")}|${tens.join("|")}|[1-9]\\d,[1-9]\\d{2})\\}`;
})();
const QUANTIFIER = `(?:[*+?]|${COUNTS})\\??`;

/** How the pieces of patterns that do not nest are written. */
interface Pieces {
  readonly atom: Expression;
  readonly assertion: Expression;
  readonly quantifier: Expression;
  readonly name: Expression;
}

function piecesOf(write: (source: string) => Expression): Pieces {
  return {
    atom: write(`(?:${PLAIN}|\\.|${ESCAPE}|${CLASS})`),
    assertion: write("[\\^$|]|\\\\[bB]"),
    quantifier: optional(write(QUANTIFIER)),
    name: write("[A-Za-z_$][\\w$]*"),
  };
}

/** Any number of terms and bars between them. */
function termsOf({ atom, assertion, quantifier }: Pieces, nested: Expression | undefined) {
  const flat = [sequence([atom, quantifier]), assertion];
  return repeat(choice(nested === undefined ? flat : [...flat, ...groupsOf(nested, quantifier)]));
}

function groupsOf(nested: Expression, quantifier: Expression): Expression[] {
  const lookaround = choice(["?=", "?!", "?<=", "?<!"].map(text));
  return [
    sequence([text("("), optional(text("?:")), nested, text(")"), quantifier]),
    sequence([text("("), lookaround, nested, text(")")]),
  ];
}

const PATTERN = "pattern";
const PATTERN_WITH_NAME = "pattern with a name";

let rules: ReadonlyMap<string, Expression> | undefined;

/** Inside the quotes of a JSON string. */
function regexRules(): ReadonlyMap<string, Expression> {
  rules ??= makeRules();
  return rules;
}

/** What refers to them. */
const REGEX_CONTENT: Expression = choice([rule(PATTERN), rule(PATTERN_WITH_NAME)]);

function makeRules(): ReadonlyMap<string, Expression> {
  const pieces = piecesOf((source) =>
    regular(insideJsonString(automatonOf(parseRegex(source)), PLAIN_ASCII)),
  );
  const { quantifier, name } = pieces;
  const terms = termsOf(pieces, rule(PATTERN));
  const named = [text("(?<"), name, text(">"), rule(PATTERN), text(")"), quantifier];
  const inside = groupsOf(rule(PATTERN_WITH_NAME), quantifier);
  return new Map([
    [PATTERN, terms],
    [
      PATTERN_WITH_NAME,
      sequence([rule(PATTERN), choice([sequence(named), ...inside]), rule(PATTERN)]),
    ],
  ]);
}

/** For joining it with other facts: all of these are patterns, and most patterns. */
export function regexLanguage(): Language {
  const pieces = piecesOf((source) => parseRegex(source));
  const expression = termsOf(pieces, termsOf(pieces, undefined));
  return new Language(expression, {
    isPlain: true,
    content: REGEX_CONTENT,
    rules: regexRules,
    has: isPattern,
  });
}

function isPattern(source: string): boolean {
  try {
    return new RegExp(source, "u").source !== "";
  } catch {
    return false;
  }
}
