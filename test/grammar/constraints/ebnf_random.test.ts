import { describe, expect, test } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { Configurations } from "../../../src/grammar/automaton/configurations.ts";
import { Marks } from "../../../src/grammar/constraints/marks.ts";
import { parseGrammar } from "../../../src/grammar/constraints/parse_grammar.ts";
import { parseEbnf } from "../../../src/grammar/ebnf/parse_ebnf.ts";
import type { Expression, Grammar } from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { type RandomSource, randomSource } from "../samples/random_grammar.ts";
import { matches } from "../samples/reference_matcher.ts";

const GRAMMARS = process.env.WISP_TEST_FULL === "1" ? 20_000 : 400;

/** A grammar in EBNF, spaced and escaped in changing ways. */
function print({ rules }: Grammar, { below }: RandomSource): string {
  const pick = (options: readonly string[]) => options[below(options.length)]!;
  const space = () => pick([" ", "  ", "\n  ", "\t", " # note\n "]);
  const hex = (point: number, length: number) => point.toString(16).padStart(length, "0");
  const spell = (character: string): string => {
    const point = character.codePointAt(0)!;
    if (point > 0xffff) return pick([character, `\\U${hex(point, 8)}`]);
    return pick([character, `\\u${hex(point, 4)}`]);
  };
  const literal = (value: string): string => {
    const quote = pick(['"', "'"]);
    return quote + Array.from(value, spell).join("") + quote;
  };
  const show = (expression: Expression): string => {
    switch (expression.kind) {
      case "text":
        return literal(expression.text);
      case "class": {
        const ranges = expression.points.map(([first, last]) =>
          [first, last].map((point) => spell(String.fromCodePoint(point))).join("-"),
        );
        return ranges.length === 0 ? "nothing" : `[${ranges.join("")}]`;
      }
      case "sequence":
        return `(${expression.parts.map(show).join(space())})`;
      case "choice":
        if (expression.options.length === 0) return "nothing";
        return `(${expression.options.map(show).join(`${space()}|${space()}`)})`;
      case "repeat": {
        const { body, min, max } = expression;
        const bounds = max === Number.POSITIVE_INFINITY ? `{${min},}` : `{${min},${max}}`;
        return `(${show(body)})${space()}${min === 0 && max === Number.POSITIVE_INFINITY ? "*" : bounds}`;
      }
      case "rule":
        return expression.name;
      default:
        throw new Error(`no EBNF for ${expression.kind}`);
    }
  };
  const lines = [...rules].map(([name, body]) => `${name}${space()}::=${space()}${show(body)}`);
  // No finite text satisfies it.
  return [...lines, 'nothing ::= "x" nothing'].join("\n");
}

/** The same in Lark's notation, from a rule `start`. */
function printLark({ rules, root }: Grammar, { below }: RandomSource): string {
  const pick = (options: readonly string[]) => options[below(options.length)]!;
  const space = () => pick([" ", "  ", "\t"]);
  const show = (expression: Expression): string => {
    switch (expression.kind) {
      case "text":
        return JSON.stringify(expression.text);
      case "class": {
        const spell = (point: number) => `\\u{${point.toString(16)}}`;
        const ranges = expression.points.map((range) => range.map(spell).join("-"));
        return ranges.length === 0 ? "nothing" : `/[${ranges.join("")}]/`;
      }
      case "sequence":
        return `(${expression.parts.map(show).join(`${space()}\n`)})`;
      case "choice":
        if (expression.options.length === 0) return "nothing";
        return `(${expression.options.map(show).join(`${space()}|${space()}`)})`;
      case "repeat": {
        const { body, min, max } = expression;
        if (max === Number.POSITIVE_INFINITY) return `(${show(body)}){${min},}`;
        if (min === 0 && max === 1 && below(2) === 0) return `[${show(body)}]`;
        return `(${show(body)})${pick([`~${min}..${max}`, `{${min},${max}}`])}`;
      }
      case "rule":
        return expression.name;
      default:
        throw new Error(`no Lark for ${expression.kind}`);
    }
  };
  const lines = [...rules].map(([name, body]) => `${pick(["", "?", "!"])}${name}: ${show(body)}`);
  return [`start: ${root} // whole`, ...lines, 'nothing: "x" nothing'].join("\n");
}

/** Whether a rule can begin with itself, found by following every way to begin. */
function isLeftRecursive({ rules }: Grammar): boolean {
  const nullable = new Set<string>();
  const isNullable = (expression: Expression): boolean => {
    switch (expression.kind) {
      case "sequence":
        return expression.parts.every(isNullable);
      case "choice":
        return expression.options.some(isNullable);
      case "repeat":
        return expression.min === 0 || isNullable(expression.body);
      case "rule":
        return nullable.has(expression.name);
      default:
        return false;
    }
  };
  for (let before = -1; before < nullable.size; ) {
    before = nullable.size;
    for (const [name, body] of rules) if (isNullable(body)) nullable.add(name);
  }
  const beginsWith = (expression: Expression, name: string, seen: Set<string>): boolean => {
    switch (expression.kind) {
      case "sequence": {
        const solid = expression.parts.findIndex((part) => !isNullable(part));
        const parts = expression.parts.slice(0, solid < 0 ? undefined : solid + 1);
        return parts.some((part) => beginsWith(part, name, seen));
      }
      case "choice":
        return expression.options.some((option) => beginsWith(option, name, seen));
      case "repeat":
        return expression.max > 0 && beginsWith(expression.body, name, seen);
      case "rule":
        if (expression.name === name) return true;
        if (seen.has(expression.name)) return false;
        seen.add(expression.name);
        return beginsWith(rules.get(expression.name)!, name, seen);
      default:
        return false;
    }
  };
  return [...rules].some(([name, body]) => beginsWith(body, name, new Set()));
}

/** Undefined when no text satisfies the grammar. */
function configurationsOf(grammar: Grammar): Configurations | undefined {
  try {
    return new Configurations(compileAutomaton(grammar));
  } catch (error) {
    if (error instanceof GrammarError && error.message.includes("no text satisfies")) return;
    throw error;
  }
}

/** Undefined where a text can be read in more ways than are followed. */
function acceptsBytes(states: Configurations | undefined, text: string): boolean | undefined {
  states?.begin();
  const bytes = new TextEncoder().encode(text);
  try {
    return states?.follow(states.start, bytes)?.accepting ?? false;
  } catch (error) {
    if (error instanceof GrammarError && error.message.includes("ways at once")) return undefined;
    throw error;
  }
}

describe("parseEbnf on random grammars", () => {
  test("the language is that of the grammar, left recursive or not", () => {
    const random = randomSource(11);
    const found = { matching: 0, rewritten: 0, ambiguous: 0 };
    for (let round = 0; round < GRAMMARS; round++) {
      const grammar = random.grammar(3);
      const source = print(grammar, random);
      const parsed = parseEbnf(source, { root: "r0" });
      const isRewritten = isLeftRecursive(grammar);
      if (isRewritten) found.rewritten += 1;
      const states = configurationsOf(parsed);
      const lark = printLark(grammar, random);
      const larkStates = configurationsOf(parseGrammar(lark, { marks: new Marks(new Map()) }));
      for (let i = 0; i < 10; i++) {
        const value = random.text(5);
        const expected = matches(grammar, value);
        if (expected) found.matching += 1;
        const ours = acceptsBytes(states, value);
        const ofLark = acceptsBytes(larkStates, value);
        if (ours === undefined || ofLark === undefined) found.ambiguous += 1;
        expect(ours ?? expected, `${source} on ${value}`).toBe(expected);
        expect(ofLark ?? expected, `${lark} on ${value}`).toBe(expected);
        if (!isRewritten && i < 3) expect(matches(parsed, value), source).toBe(expected);
      }
    }
    expect(found.matching).toBeGreaterThan(GRAMMARS / 4);
    expect(found.rewritten).toBeGreaterThan(GRAMMARS / 20);
    // Of ten texts for each grammar.
    expect(found.ambiguous).toBeLessThanOrEqual(GRAMMARS / 1000);
  });

  test.each([
    [
      "EBNF",
      "root ::= ",
      Array.from("ab.|()[]{}*+?\"'\\\\^-,01=#<! \n"),
      ["\nb ::= ", "[^", "\\\\x41"],
    ],
    [
      "Lark",
      "start: ",
      Array.from('ab.|()[]{}*+?"/~\\\\-,01:#<%@ \n'),
      ["\nb: ", "%ignore ", "->", "/a/"],
    ],
  ])("any text is a grammar in %s or is refused with its place", (_, begin, pieces, more) => {
    const random = randomSource(5);
    pieces.push(...more, '"a"', "[a-b]", "{1,2}", "\\\\n", "root", "a", "A");
    let read = 0;
    for (let round = 0; round < 20 * GRAMMARS; round++) {
      const length = random.below(9);
      const text = Array.from({ length }, () => pieces[random.below(pieces.length)]).join("");
      const source = begin + text;
      try {
        parseGrammar(source, { marks: new Marks(new Map()) });
        read += 1;
      } catch (error) {
        if (!(error instanceof GrammarError)) throw error;
        expect(error.position, source).toBeLessThanOrEqual(source.length);
        expect(error.message, source).toMatch(/, line \d+, column \d+ /);
      }
    }
    expect(read).toBeGreaterThan(GRAMMARS / 4);
  });
});
