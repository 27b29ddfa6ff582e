/**
 * The rules of JSON (RFC 8259) that grammars for it share.
 *
 * | rule | matches |
 * |---|---|
 * | `value` | any value |
 * | `object`, `array`, `string`, `number` | any value of that type |
 * | `character` | one character inside a string, in any spelling |
 * | `comma`, `colon` | that, with the white space around it |
 * | `open`, `close` | white space behind an opening bracket, and before a closing one |
 * | `hollow` | white space between brackets that have nothing else in them |
 *
 * Without a bound of its own, white space is what models and programs write: none, one space, or a
 * line break and indentation behind `{`, `[` and `,` and before `}` and `]`; none or one space behind
 * `:`. Lines are indented no further than values of the grammar nest. Where a grammar leaves more
 * room, a weak model fills it until its answer is cut off.
 *
 * A string means Unicode text: half a surrogate pair, which JSON can spell as an escape, is none.
 *
 * @module
 */

import { automatonOf } from "../../automaton/code_point_automaton.ts";
import { ANY_CODE_POINT } from "../../automaton/code_points.ts";
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
} from "../../expression.ts";
import { insideJsonString } from "../../json_string.ts";
import { JSON_NUMBER } from "../numbers/number_language.ts";

export interface WhitespaceOptions {
  /**
   * The most characters of any white space between two tokens; 0 is compact JSON. There is never any
   * before or after the whole value.
   *
   * @default White space as models write it.
   */
  readonly maxWhitespace?: number | undefined;
}

/** Levels that lines are indented by at most, where values nest deeper or without end. */
export const MAX_LEVELS = 8;
/** Of one level: four, two or fewer, or a tab. */
const LEVEL_SPACES = 4;

export const QUOTE = text('"');
export const COMMA = rule("comma");
export const COLON = rule("colon");

const CHARACTER = regular(insideJsonString(automatonOf(characters(ANY_CODE_POINT))));

const WHITE = characters(Array.from(" \t\n\r", (c) => [c.charCodeAt(0), c.charCodeAt(0)]));
const VALUE = rule("value");
const MEMBER = sequence([rule("string"), COLON, VALUE]);
const SCALARS = [rule("string"), rule("number"), text("true"), text("false"), text("null")];

const RULES: ReadonlyMap<string, Expression> = new Map([
  ["value", choice([rule("object"), rule("array"), ...SCALARS])],
  ["object", enclosed("{", listOf(MEMBER), "}")],
  ["array", enclosed("[", listOf(VALUE), "]")],
  ["string", sequence([QUOTE, repeat(rule("character")), QUOTE])],
  ["character", CHARACTER],
  ["number", JSON_NUMBER],
]);

const SPACE_RULES = ["comma", "colon", "open", "close", "hollow"] as const;

/** Names of the rules. */
export const JSON_RULES: ReadonlySet<string> = new Set([...SPACE_RULES, ...RULES.keys()]);

/** Rules that every grammar for JSON shares. */
export function jsonRules({ maxWhitespace }: WhitespaceOptions = {}): Map<string, Expression> {
  const spaces =
    maxWhitespace === undefined ? usualSpaces(MAX_LEVELS) : boundedSpaces(maxWhitespace);
  return new Map([...Object.entries(spaces), ...RULES]);
}

/** Takes from lines the indentation that no value of a grammar needs which nests so deep at most. */
export function indentNoFurther(rules: Map<string, Expression>, levels: number): void {
  for (const [name, expression] of Object.entries(usualSpaces(levels))) rules.set(name, expression);
}

type SpaceRules = Readonly<Record<(typeof SPACE_RULES)[number], Expression>>;

function usualSpaces(levels: number): SpaceRules {
  return {
    comma: sequence([text(","), gap(levels)]),
    colon: sequence([text(":"), optional(text(" "))]),
    open: gap(levels),
    // It stands where the line of its opening bracket begins.
    close: gap(Math.max(0, levels - 1)),
    hollow: EMPTY,
  };
}

/** Before an item, or before the bracket that closes the last one. */
function gap(levels: number): Expression {
  const indentation = choice([
    repeat(text(" "), { max: LEVEL_SPACES * levels }),
    repeat(text("\t"), { min: 1, max: Math.max(1, levels) }),
  ]);
  const line = levels === 0 ? EMPTY : indentation;
  return optional(choice([text(" "), sequence([text("\n"), line])]));
}

function boundedSpaces(max: number): SpaceRules {
  const space = max === 0 ? EMPTY : repeat(WHITE, { max });
  return {
    comma: sequence([space, text(","), space]),
    colon: sequence([space, text(":"), space]),
    open: space,
    close: space,
    hollow: space,
  };
}

/** One or more, with commas, or nothing. */
function listOf(item: Expression): Expression {
  return choice([
    sequence([beforeItem(false), item, repeat(sequence([COMMA, item])), beforeClose(true)]),
    beforeClose(false),
  ]);
}

/** @param started Whether an item stands before this one. */
export function beforeItem(started: boolean): Expression {
  return started ? COMMA : rule("open");
}

/** @param started Whether there is an item. */
export function beforeClose(started: boolean): Expression {
  return rule(started ? "close" : "hollow");
}

/** @param content With the white space around its items. */
export function enclosed(open: string, content: Expression, close: string): Expression {
  return sequence([text(open), content, text(close)]);
}
