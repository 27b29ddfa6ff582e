import { describe, expect, test } from "vitest";
import { automatonOf } from "../../../src/grammar/automaton/code_point_automaton.ts";
import {
  ANY_CODE_POINT,
  codePoints,
  codePointsOf,
  hasCodePoint,
  intersectSets,
  invert,
  subtractSet,
  unite,
} from "../../../src/grammar/automaton/code_points.ts";
import {
  accepts,
  complement,
  determinize,
  difference,
  intersection,
  isEmpty,
  textsOf,
  union,
} from "../../../src/grammar/automaton/regular.ts";
import {
  bytes,
  characters,
  choice,
  EMPTY,
  type Expression,
  NEVER,
  optional,
  regular,
  repeat,
  rule,
  sequence,
  text,
} from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { insideJsonString } from "../../../src/grammar/json_string.ts";
import { randomSource } from "../samples/random_grammar.ts";

const digit = characters([[0x30, 0x39]]);
const any = characters(ANY_CODE_POINT);

describe("code points", () => {
  test("codePoints sorts, joins and leaves surrogates out", () => {
    const set = codePoints([
      [0x62, 0x63],
      [0x61, 0x61],
      [0xd700, 0xe000],
      [0x110000, 0x120000],
      [5, 4],
    ]);
    expect(set).toEqual([
      [0x61, 0x63],
      [0xd700, 0xd7ff],
      [0xe000, 0xe000],
    ]);
  });

  test("set operations agree with membership of single code points", () => {
    const a = codePointsOf("aceé語😀");
    const b = codePoints([
      [0x61, 0x63],
      [0x8a00, 0x1ffff],
    ]);
    for (const point of [0, 0x60, 0x61, 0x62, 0x63, 0x65, 0xe9, 0xd7ff, 0xd800, 0xe000, 0x1f600]) {
      const [inA, inB] = [hasCodePoint(a, point), hasCodePoint(b, point)];
      expect(hasCodePoint(unite([a, b]), point)).toBe(inA || inB);
      expect(hasCodePoint(intersectSets(a, b), point)).toBe(inA && inB);
      expect(hasCodePoint(subtractSet(a, b), point)).toBe(inA && !inB);
      expect(hasCodePoint(invert(a), point)).toBe(!inA && point !== 0xd800);
    }
    expect(invert([])).toEqual(ANY_CODE_POINT);
    expect(invert(ANY_CODE_POINT)).toEqual([]);
  });
});

describe("automata over code points", () => {
  test("automatonOf accepts what the expression says", () => {
    const year = automatonOf(sequence([optional(text("-")), repeat(digit, { min: 2, max: 4 })]));
    for (const yes of ["12", "-123", "1234"]) expect(accepts(year, yes)).toBe(true);
    for (const no of ["", "-", "1", "12345", "--12", "1a"]) expect(accepts(year, no)).toBe(false);
  });

  test("automatonOf of nothing and of the empty text", () => {
    expect(isEmpty(automatonOf(NEVER))).toBe(true);
    expect(isEmpty(automatonOf(sequence([text("a"), NEVER])))).toBe(true);
    expect(textsOf(automatonOf(EMPTY), 10)).toEqual([""]);
    expect(textsOf(automatonOf(NEVER), 10)).toEqual([]);
  });

  test("automatonOf refuses rules and bytes by name", () => {
    expect(() => automatonOf(rule("x"))).toThrow('refers to rule "x"');
    expect(() => automatonOf(bytes([0, 255]))).toThrow("single bytes");
  });

  test("intersection, difference and complement of a pattern and a length", () => {
    const word = automatonOf(repeat(characters([[0x61, 0x7a]])));
    const short = automatonOf(repeat(any, { max: 3 }));
    const reserved = automatonOf(choice([text("if"), text("else")]));
    const allowed = difference(intersection(word, short), reserved);
    for (const yes of ["", "i", "ife", "abc"]) expect(accepts(allowed, yes)).toBe(true);
    for (const no of ["if", "else", "abcd", "A"]) expect(accepts(allowed, no)).toBe(false);
    const other = complement(allowed);
    for (const yes of ["if", "else", "abcd", "A", "語"]) expect(accepts(other, yes)).toBe(true);
    for (const no of ["", "i", "abc"]) expect(accepts(other, no)).toBe(false);
    expect(isEmpty(intersection(allowed, other))).toBe(true);
    expect(isEmpty(complement(union(allowed, other)))).toBe(true);
  });

  test("textsOf lists a finite language in order and gives up on others", () => {
    const finite = automatonOf(sequence([optional(text("b")), characters([[0x31, 0x33]])]));
    expect(textsOf(finite, 6)).toEqual(["1", "2", "3", "b1", "b2", "b3"]);
    expect(textsOf(finite, 5)).toBeUndefined();
    expect(textsOf(automatonOf(repeat(digit)), 1000)).toBeUndefined();
    expect(textsOf(automatonOf(any), 1000)).toBeUndefined();
  });

  test("an automaton can stand in an expression", () => {
    const inner = regular(automatonOf(repeat(text("ab"), { min: 1 })));
    const automaton = automatonOf(sequence([inner, optional(inner), text("c")]));
    for (const yes of ["abc", "ababc"]) expect(accepts(automaton, yes)).toBe(true);
    for (const no of ["c", "abac", "ab"]) expect(accepts(automaton, no)).toBe(false);
  });

  test("the operations agree on random languages", () => {
    const random = randomSource(7);
    for (let round = 0; round < 60; round++) {
      const [a, b] = [automatonOf(random.regular(3)), automatonOf(random.regular(3))];
      const combined = {
        both: intersection(a, b),
        either: union(a, b),
        first: difference(a, b),
        not: complement(a),
        same: determinize(a),
      };
      for (let i = 0; i < 40; i++) {
        const word = random.text(6);
        const [inA, inB] = [accepts(a, word), accepts(b, word)];
        expect(accepts(combined.both, word)).toBe(inA && inB);
        expect(accepts(combined.either, word)).toBe(inA || inB);
        expect(accepts(combined.first, word)).toBe(inA && !inB);
        expect(accepts(combined.not, word)).toBe(!inA);
        expect(accepts(combined.same, word)).toBe(inA);
      }
    }
  });

  test.each<[string, () => unknown]>([
    ["counts", () => automatonOf(repeat(digit, { max: 1e9 }))],
    ["counts of counts", () => automatonOf(repeat(repeat(digit, { max: 999 }), { max: 999 }))],
    ["counts of nothing", () => automatonOf(repeat(repeat(EMPTY, { max: 999 }), { max: 999 }))],
    ["optional counts", () => automatonOf(repeat(optional(digit), { max: 5000 }))],
    [
      "blow-up",
      () => {
        const bit = characters([[0x61, 0x62]]);
        const far = sequence([repeat(bit), text("a"), repeat(bit, { min: 18, max: 18 })]);
        return complement(automatonOf(far));
      },
    ],
  ])("a language beyond the limits is refused: %s", (_, build) => {
    expect(build).toThrow(GrammarError);
  });

  test("automatonOf needs no stack for deep expressions", () => {
    let deep: Expression = text("x");
    for (let i = 0; i < 100_000; i++) deep = { kind: "sequence", parts: [deep] };
    expect(accepts(automatonOf(deep), "x")).toBe(true);
  });
});

describe("insideJsonString", () => {
  const spellings = (expression: Expression) => insideJsonString(automatonOf(expression));

  test("every way to write a short text is accepted, and nothing else", () => {
    expect(textsOf(spellings(text("/")), 100)).toEqual(["/", "\\/", "\\u002F", "\\u002f"]);
    expect(textsOf(spellings(text('"')), 100)).toEqual(['\\"', "\\u0022"]);
    expect(textsOf(spellings(text("\n")), 100)).toHaveLength(1 + 2);
    expect(textsOf(spellings(text("\u0001")), 100)).toEqual(["\\u0001"]);
    const pair = textsOf(spellings(text("😀")), 100)!;
    expect(pair).toHaveLength(1 + 2 ** 4);
    for (const spelling of pair) expect(JSON.parse(`"${spelling}"`)).toBe("😀");
  });

  test("every code point of a class is accepted in every spelling, others are not", () => {
    const points = codePoints([
      [0x00, 0x20],
      [0x22, 0x22],
      [0x7f, 0x7ff],
      [0xfff0, 0x10400],
      [0x10ffff, 0x10ffff],
    ]);
    const inside = determinize(spellings(characters(points)));
    const probes = points.flatMap(([first, last]) => [first - 1, first, last, last + 1]);
    for (const point of [...probes, 0x5c, 0xd800, 0x10100, 0x103ff]) {
      if (point < 0 || point > 0x10ffff) continue;
      const character = String.fromCodePoint(point);
      const units = [...Array(character.length).keys()].map((i) =>
        character.charCodeAt(i).toString(16).padStart(4, "0"),
      );
      const unicode = units.map((unit) => `\\u${unit}`).join("");
      const expected = hasCodePoint(points, point);
      expect(accepts(inside, unicode), unicode).toBe(expected);
      expect(accepts(inside, unicode.toUpperCase().replaceAll("U", "u"))).toBe(expected);
      const raw = expected && point >= 0x20 && point !== 0x22 && point !== 0x5c;
      if (point !== 0xd800) expect(accepts(inside, character)).toBe(raw);
    }
    expect(accepts(inside, "\\n")).toBe(true);
    expect(accepts(inside, "\\/")).toBe(false);
  });

  test("counts characters of the value, not of its spelling", () => {
    const inside = spellings(repeat(any, { min: 2, max: 2 }));
    for (const yes of ["ab", "\\ud83d\\ude00é", "\\\\\\n", "a\\u0041"]) {
      expect(accepts(inside, yes)).toBe(true);
    }
    for (const no of ["a", "abc", '""', "\\ud83d\\ude00", "\\x", "a\\", "a\n"]) {
      expect(accepts(inside, no)).toBe(false);
    }
  });
});
