import { describe, expect, test } from "vitest";
import { codePointsOf } from "../../../src/grammar/automaton/code_points.ts";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import {
  characters,
  choice,
  EMPTY,
  type Expression,
  type Grammar,
  grammarOf,
  optional,
  repeat,
  rule,
  sequence,
  text,
} from "../../../src/grammar/expression.ts";

const ab = characters(codePointsOf("ab"));

function grammar(rules: Record<string, Expression>): Grammar {
  return { rules: new Map(Object.entries(rules)), root: Object.keys(rules)[0]! };
}

describe("refusals", () => {
  test.each<[string, Record<string, Expression>]>([
    ['rule "a" -> "a"', { a: choice([sequence([rule("a"), text("x")]), text("y")]) }],
    ['"a" -> "b" -> "a"', { a: rule("b"), b: sequence([optional(ab), rule("a")]) }],
    [
      '"a" -> "a"',
      { a: repeat(sequence([EMPTY, rule("e"), rule("a")])), e: repeat(rule("f")), f: ab },
    ],
  ])("left recursion is refused with its rules: %s", (names, rules) => {
    expect(() => compileAutomaton(grammar(rules))).toThrow(names);
  });

  test("what is repeated no times is no left recursion", () => {
    const none = repeat(rule("a"), { max: 0 });
    expect(() => compileAutomaton(grammar({ a: sequence([none, ab]) }))).not.toThrow();
  });

  test("a rule that is not there is refused and named", () => {
    expect(() => compileAutomaton(grammar({ a: rule("b") }))).toThrow('"b"');
    expect(() => compileAutomaton({ rules: new Map(), root: "main" })).toThrow('"main"');
  });

  test("what is no text or no bound is refused", () => {
    expect(() => compileAutomaton(grammarOf(text("a\ud800")))).toThrow("surrogate");
    expect(() => compileAutomaton(grammarOf(repeat(ab, { min: 2, max: 1 })))).toThrow("bounds");
    expect(() => compileAutomaton(grammarOf(repeat(ab, { min: 0.5 })))).toThrow("bounds");
  });
});
