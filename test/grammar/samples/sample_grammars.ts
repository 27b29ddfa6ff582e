/**
 * Grammars of the kinds that requests bring, written in the common form.
 *
 * @module
 */
import { automatonOf } from "../../../src/grammar/automaton/code_point_automaton.ts";
import { ANY_CODE_POINT, codePoints } from "../../../src/grammar/automaton/code_points.ts";
import {
  characters,
  choice,
  type Expression,
  type Grammar,
  optional,
  regular,
  repeat,
  rule,
  sequence,
  text,
} from "../../../src/grammar/expression.ts";
import { insideJsonString } from "../../../src/grammar/json_string.ts";

export const digit = characters([[0x30, 0x39]]);
export const any = characters(ANY_CODE_POINT);
const hex = characters(
  codePoints([
    [0x30, 0x39],
    [0x41, 0x46],
    [0x61, 0x66],
  ]),
);
const space = repeat(choice([text(" "), text("\n"), text("\t"), text("\r")]));

/** One character of a JSON string's value, in every way to write it. */
const jsonCharacter = regular(insideJsonString(automatonOf(any)));

const scalars: readonly (readonly [string, Expression])[] = [
  ["character", jsonCharacter],
  ["string", sequence([text('"'), repeat(rule("character")), text('"')])],
  [
    "number",
    sequence([
      optional(text("-")),
      choice([text("0"), sequence([characters([[0x31, 0x39]]), repeat(digit)])]),
      optional(sequence([text("."), repeat(digit, { min: 1 })])),
      optional(
        sequence([
          choice([text("e"), text("E")]),
          optional(choice([text("+"), text("-")])),
          repeat(digit, { min: 1 }),
        ]),
      ),
    ]),
  ],
];

function list(item: Expression): Expression {
  return optional(sequence([item, repeat(sequence([space, text(","), space, item]))]));
}

/** Any JSON text. */
export const json: Grammar = {
  root: "value",
  rules: new Map([
    ...scalars,
    [
      "value",
      choice([
        rule("object"),
        rule("array"),
        rule("string"),
        rule("number"),
        text("true"),
        text("false"),
        text("null"),
      ]),
    ],
    [
      "object",
      sequence([
        text("{"),
        space,
        list(sequence([rule("string"), space, text(":"), space, rule("value")])),
        space,
        text("}"),
      ]),
    ],
    ["array", sequence([text("["), space, list(rule("value")), space, text("]")])],
  ]),
};

/** An object with some properties in order, one of them a string of bounded length. */
export const person: Grammar = {
  root: "root",
  rules: new Map([
    ...scalars,
    ["bounded", sequence([text('"'), repeat(rule("character"), { min: 2, max: 40 }), text('"')])],
    [
      "root",
      sequence([
        text('{"name": '),
        rule("bounded"),
        text(', "city": '),
        rule("string"),
        text(', "age": '),
        rule("number"),
        text(', "colour": '),
        choice([text('"red"'), text('"green"'), text('"blue"')]),
        text(', "tags": ['),
        list(rule("string")),
        text("]}"),
      ]),
    ],
  ]),
};

/** A UUID. */
export const uuid: Grammar = {
  root: "root",
  rules: new Map([
    [
      "root",
      sequence(
        [8, 4, 4, 4, 12].flatMap((count, i) => [
          ...(i > 0 ? [text("-")] : []),
          repeat(hex, { min: count, max: count }),
        ]),
      ),
    ],
  ]),
};

/** A JSON string whose value has at most 4,096 characters. */
export const longString: Grammar = {
  root: "root",
  rules: new Map([
    ...scalars,
    ["root", sequence([text('"'), repeat(rule("character"), { max: 4096 }), text('"')])],
  ]),
};
