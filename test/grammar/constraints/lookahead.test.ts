/** Lookahead of grammars, beside trying everything. */
import { describe, expect, test } from "vitest";
import { ANY_CODE_POINT } from "../../../src/grammar/automaton/code_points.ts";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { Configurations } from "../../../src/grammar/automaton/configurations.ts";
import { Marks } from "../../../src/grammar/constraints/marks.ts";
import { parseGrammar } from "../../../src/grammar/constraints/parse_grammar.ts";
import { withoutLeftRecursion } from "../../../src/grammar/ebnf/left_recursion.ts";
import { withoutLookahead } from "../../../src/grammar/ebnf/lookahead_product.ts";
import { type Lookahead, Lookaheads } from "../../../src/grammar/ebnf/lookaheads.ts";
import {
  childrenOf,
  type Expression,
  type Grammar,
  repeat,
  sequence,
} from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { compileGrammar } from "../../../src/grammar/library.ts";
import { randomSource } from "../samples/random_grammar.ts";
import { matches } from "../samples/reference_matcher.ts";

const GRAMMARS = process.env.WISP_TEST_FULL === "1" ? 4_000 : 200;

function accepts(ebnf: string, text: string): boolean {
  return compileGrammar({ ebnf }).accepts(text);
}

function errorOf(ebnf: string): GrammarError {
  try {
    parseGrammar(ebnf, { marks: new Marks(new Map([["<think>", 7]])) });
  } catch (error) {
    if (error instanceof GrammarError) return error;
    throw error;
  }
  throw new Error("the grammar was not refused");
}

test("a grammar that refers to one rule for ever is read in a moment", () => {
  const ebnf = `root ::= (?="a") ${"a ".repeat(120_000)}\na ::= "a"`;
  const { rules } = parseGrammar(ebnf, { marks: new Marks(new Map()) });
  expect(rules.size).toBeLessThan(10);
});

describe("lookahead in EBNF", () => {
  test.each<[string, string[], string[]]>([
    ['root ::= "a" (="b") [a-z]', ["ab"], ["aa", "a", "abc"]],
    ['root ::= "a" (?="b") [a-z]*', ["ab", "abz"], ["a", "aab"]],
    ['root ::= (?!"if" [^a-z]) [a-z]+ [;]?', ["iff;", "i", "if"], ["if;"]],
    // Beyond the rule, into whatever follows.
    [
      'root ::= (word " ")* "."\nword ::= [a-z]+ (=" " [^x])',
      ["ab cd .", "."],
      ["ab xd .", "a x ."],
    ],
    ['root ::= item ("," item)*\nitem ::= [a-z]+ (?!",b")', ["a,cb", "b"], ["a,b", "c,a,bc"]],
    // Names of what it looks for, and nothing at the end.
    ['root ::= [ab]* (=end) .+\nend ::= "c" digit?\ndigit ::= [0-9]', ["abc", "c1"], ["ab", "abd"]],
    ['root ::= "a" (?!.)', ["a"], ["aa", ""]],
    ['root ::= "a" (?=.) "b"?', ["ab"], ["a"]],
    ['root ::= "a" (?=) "b"?', ["ab", "a"], ["b"]],
    ['root ::= ("a" (?!"aa"))* "b"?', ["", "b", "ab", "aa", "aab"], ["aaa", "aaab"]],
    // Around recursion from the left, right and middle.
    ['root ::= root "+" n | n\nn ::= [0-9]+ (?!"+0")', ["1+2+3", "0"], ["1+0", "1+2+01"]],
    ['root ::= "(" root ")" | (?=[a-z]{2}) [a-z0-9]{1,9}', ["((ab1))", "ab"], ["(a)", "((a1b))"]],
  ])("%s", (source, yes, no) => {
    for (const text of yes) expect(accepts(source, text), text).toBe(true);
    for (const text of no) expect(accepts(source, text), text).toBe(false);
  });

  test.each([
    ['root ::= "a" (=x) "b"\nx ::= "b" x?', 13, 'refers to rule "x", which refers to itself'],
    ['root ::= (=<think>) "b"', 9, "special tokens"],
    ['root ::= (=("a" (="b"))) "b"', 9, "another lookahead inside"],
    ['root ::= (?="b") <think>', 9, "special token"],
    ['root ::= (?<="b") "a"', 9, "lookbehind"],
    ['root ::= (="a")* "a"', 15, "nothing to repeat"],
    ['root ::= "a"\nx ::= (="b"', 19, '")" is missing'],
    ['root ::= ([a-z] (?!"b")){10000}', 16, "rules"],
    [`root ::= (=${'("a"|"b")'.repeat(9000)}) .*`, 9, "too large"],
  ])("refuses %s at %i", (source, position, reason) => {
    const error = errorOf(source);
    expect(error.message).toContain(reason);
    expect(error.position).toBe(position);
    expect(error.message).toMatch(/, line \d+, column \d+/);
  });
});

describe("lookahead in Lark", () => {
  test.each<[string, string[], string[]]>([
    ["start: NAME /.*/\nNAME: /(?!if\\b)[a-z]+/", ["iff(", "a", "i"], ["if(", "if"]],
    ['start: KEY ":" /.+/\nKEY: /[a-z]+(?=:[0-9])/', ["ab:1", "ab:12"], ["ab:x"]],
    ["start: /a(?!b)(?=.c)/ /.*/", ["axc", "acc1"], ["abc", "axd", "a"]],
    ["start: /x(?=[^a)]|y$)/ /./", ["xb", "xy"], ["xa", "x)"]],
    ['start: WORD+\nWORD: /[a-z]+(?= |$)/\n%ignore " "', ["ab cd", "ab"], ["ab1"]],
    ["start: /a(?=B)/i /./", ["ab", "AB"], ["aa"]],
    ["start: /[(?=b)]+/", ["(?=b)"], ["a"]],
  ])("%s", (source, yes, no) => {
    for (const text of yes) expect(accepts(source, text), text).toBe(true);
    for (const text of no) expect(accepts(source, text), text).toBe(false);
  });

  test.each([
    ["start: /a(?=\\bb)/ /b/", "looks at the text before"],
    ["start: /a(?=^b)/ /b/", "looks at the text before"],
    ["start: /a(?<=b)/ /b/", "lookbehind"],
    ["start: /a(b(?=c))/ /c/", "lookahead"],
    ["start: /a(?=b)|c/ /b/", "lookahead"],
    ["start: /a(?=b)(?i)c/ /b/", "lookahead"],
    ["start: /a (?=b)/x /b/", "lookahead"],
  ])("refuses %s", (source, reason) => {
    const error = errorOf(source);
    expect(error.message).toContain(reason);
    expect(error.message).toContain("line 1, column 8");
  });
});

/** Some parts of an expression with a lookahead behind them. */
function withLookaheads(expression: Expression, add: () => Expression | undefined): Expression {
  const inner = (part: Expression): Expression => {
    const changed = withLookaheads(part, add);
    const lookahead = add();
    return lookahead === undefined ? changed : sequence([changed, lookahead]);
  };
  switch (expression.kind) {
    case "sequence":
      return { ...expression, parts: childrenOf(expression).map(inner) };
    case "choice":
      return { ...expression, options: childrenOf(expression).map(inner) };
    case "repeat":
      return { ...expression, body: inner(expression.body) };
    default:
      return expression;
  }
}

const ANY_TEXT = repeat({ kind: "class", points: ANY_CODE_POINT });

function holds({ body, negated }: Lookahead, rest: string): boolean {
  const grammar = { rules: new Map([["rest", sequence([body, ANY_TEXT])]]), root: "rest" };
  return matches(grammar, rest) !== negated;
}

/** Undefined where a text can be read in more ways than are followed. */
function acceptsBytes(states: Configurations | undefined, text: string): boolean | undefined {
  states?.begin();
  try {
    return states?.follow(states.start, new TextEncoder().encode(text))?.accepting ?? false;
  } catch (error) {
    if (error instanceof GrammarError && error.message.startsWith("Cannot follow"))
      return undefined;
    throw error;
  }
}

test("random grammars with lookaheads have the texts that trying everything finds", () => {
  const random = randomSource(17);
  const found = { matching: 0, refused: 0, decided: 0, ambiguous: 0 };
  for (let round = 0; round < GRAMMARS; round++) {
    const plain = random.grammar(3);
    const lookaheads = new Lookaheads();
    const add = (): Expression | undefined => {
      if (random.below(6) > 0 || lookaheads.size === 3) return undefined;
      const lookahead = { body: random.regular(2), negated: random.below(2) === 0, position: 0 };
      return lookaheads.add(lookahead);
    };
    const rules = new Map(
      [...plain.rules].map(([name, body]) => [name, withLookaheads(body, add)]),
    );
    if (lookaheads.size === 0) continue;
    const grammar: Grammar = { rules, root: plain.root };
    let states: Configurations | undefined;
    try {
      const resolved = withoutLeftRecursion(withoutLookahead(grammar, lookaheads));
      states = new Configurations(compileAutomaton(resolved));
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      if (!error.message.includes("no text satisfies")) {
        found.refused += 1;
        continue;
      }
    }
    for (let i = 0; i < 12; i++) {
      const text = random.text(5);
      const expected = matches(grammar, text, (name, rest) => {
        const lookahead = lookaheads.get(name);
        return lookahead && holds(lookahead, rest);
      });
      const ours = acceptsBytes(states, text);
      if (ours === undefined) {
        found.ambiguous += 1;
        continue;
      }
      if (expected) found.matching += 1;
      if (expected !== matches(plain, text)) found.decided += 1;
      expect([round, text, ours]).toEqual([round, text, expected]);
    }
  }
  expect(found.matching).toBeGreaterThan(GRAMMARS / 6);
  expect(found.decided).toBeGreaterThan(GRAMMARS / 60);
  expect(found.ambiguous).toBeLessThan(GRAMMARS / 50);
  expect(found.refused).toBeLessThan(GRAMMARS / 50);
});
