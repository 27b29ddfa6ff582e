import { describe, expect, test } from "vitest";
import { automatonOf } from "../../../src/grammar/automaton/code_point_automaton.ts";
import { ANY_CODE_POINT, codePointsOf } from "../../../src/grammar/automaton/code_points.ts";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { Configurations } from "../../../src/grammar/automaton/configurations.ts";
import { accepts, difference, textsOf } from "../../../src/grammar/automaton/regular.ts";
import { type EbnfOptions, parseEbnf } from "../../../src/grammar/ebnf/parse_ebnf.ts";
import {
  choice,
  EMPTY,
  type Expression,
  type Grammar,
  optional,
  repeat,
  rule,
  sequence,
  text,
} from "../../../src/grammar/expression.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { parseRegex } from "../../../src/grammar/regex/parse_regex.ts";
import { SAMPLE_EBNF } from "../samples/ebnf_grammars.ts";
import { randomSource } from "../samples/random_grammar.ts";

const a = text("a");
const b = text("b");

/** The root rule of a grammar. */
function rootOf(source: string): Expression {
  const { rules, root } = parseEbnf(source);
  return rules.get(root)!;
}

/** The root rule with all others written out, for grammars that are not recursive. */
function inlined({ rules, root }: Grammar): Expression {
  const inline = (expression: Expression): Expression => {
    switch (expression.kind) {
      case "rule":
        return inline(rules.get(expression.name)!);
      case "sequence":
        return { ...expression, parts: expression.parts.map(inline) };
      case "choice":
        return { ...expression, options: expression.options.map(inline) };
      case "repeat":
        return { ...expression, body: inline(expression.body) };
      default:
        return expression;
    }
  };
  return inline(rules.get(root)!);
}

function acceptsBytes(states: Configurations, value: string): boolean {
  states.begin();
  return states.follow(states.start, new TextEncoder().encode(value))?.accepting ?? false;
}

function errorOf(source: string, options?: EbnfOptions): GrammarError {
  try {
    parseEbnf(source, options);
  } catch (error) {
    if (error instanceof GrammarError) return error;
    throw error;
  }
  throw new Error("it was accepted");
}

describe("parseEbnf on grammars of requests", () => {
  test.each(SAMPLE_EBNF)("$name is what its regular expression is", ({ ebnf, regex, yes, no }) => {
    const grammar = parseEbnf(ebnf);
    const ours = automatonOf(inlined(grammar));
    const theirs = automatonOf(parseRegex(regex));
    expect(textsOf(difference(ours, theirs), 1), "too much").toEqual([]);
    expect(textsOf(difference(theirs, ours), 1), "too little").toEqual([]);
    const states = new Configurations(compileAutomaton(grammar));
    for (const value of yes) expect(acceptsBytes(states, value), value).toBe(true);
    for (const value of no) expect(acceptsBytes(states, value), value).toBe(false);
  });

  test("a recursive grammar of JSON takes what JSON.parse takes", () => {
    const grammar = parseEbnf(String.raw`
      root   ::= ws value ws
      value  ::= object | array | string | number | "true" | "false" | "null"
      object ::= "{" ws (member ("," ws member)*)? "}"
      member ::= string ws ":" ws value ws
      array  ::= "[" ws (value ws ("," ws value ws)*)? "]"
      string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
      number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
      ws     ::= [ \t\r\n]*`);
    const states = new Configurations(compileAutomaton(grammar));
    const pieces = [
      '"',
      "[",
      "]",
      "{",
      "}",
      ",",
      ":",
      '"é"',
      "1",
      "-",
      ".5",
      "e1",
      " ",
      "null",
      "\\n",
    ];
    const random = randomSource(3);
    let valid = 0;
    for (let round = 0; round < 4000; round++) {
      const length = 1 + random.below(5);
      const value = Array.from({ length }, () => pieces[random.below(pieces.length)]).join("");
      const expected = isJson(value);
      if (expected) valid += 1;
      expect(acceptsBytes(states, value), value).toBe(expected);
    }
    expect(valid).toBeGreaterThan(100);
    const deep = `${"[".repeat(1000)}${"]".repeat(1000)}`;
    expect(acceptsBytes(states, deep)).toBe(true);
    expect(acceptsBytes(states, `${deep}]`)).toBe(false);
  });
});

describe("left recursion is rewritten", () => {
  test.each<[string, readonly string[], readonly string[]]>([
    ['root ::= root "+" t | t\nt ::= [0-9]', ["1", "1+2", "1+2+3"], ["", "+1", "1+", "12"]],
    ['root ::= root "a" | ""', ["", "a", "aaa"], ["b"]],
    ['root ::= "a"? x "b"\nx ::= "c"* root | "x"', ["xb", "axb", "accxbb", "axbb"], ["x", "bb"]],
    ['root ::= x "."\nx ::= y{0,2} ([a]? x | "b")\ny ::= ""', ["b.", "ab.", "aab."], ["a.", "."]],
    ['root ::= (root "," | "x")*', ["", "x", "xx", "x,", "xx,x,", ","], ["y"]],
    ['root ::= root root | "a"', ["a", "aa", "aaaaa"], ["", "b"]],
    ['root ::= root root | "a" | ""', ["", "a", "aaaa"], ["b"]],
    ['root ::= b "x"? | "r"\nb ::= root | b "y"', ["r", "ry", "rx", "rxyyx"], ["", "y", "xr"]],
    ["root ::= root", [], ["", "a"]],
    ['root ::= root{2,3} "." | "a"', ["a", "aa.", "aaa.", "aa.a."], ["aaaa.", "a.", ""]],
    [
      'root ::= e\ne ::= e "+" e | e "*" e | "-" e | "(" e ")" | n\nn ::= n [0-9] | [0-9]',
      ["1", "12+3*(4+-5)", "--1"],
      ["", "1+", "(1", "1-2"],
    ],
  ])("%j", (source, yes, no) => {
    if (yes.length === 0) {
      expect(() => compileAutomaton(parseEbnf(source))).toThrow("no text satisfies");
      return;
    }
    const states = new Configurations(compileAutomaton(parseEbnf(source)));
    for (const value of yes) expect(acceptsBytes(states, value), value).toBe(true);
    for (const value of no) expect(acceptsBytes(states, value), value).toBe(false);
  });

  test("a long list needs no deep stack", () => {
    const source = 'root ::= list ";"\nlist ::= list "," item | item\nitem ::= [a-z]+';
    const states = new Configurations(compileAutomaton(parseEbnf(source)));
    expect(acceptsBytes(states, `${"ab,".repeat(20_000)}c;`)).toBe(true);
    expect(acceptsBytes(states, `${"ab,".repeat(20_000)};`)).toBe(false);
  });

  test("but not of circles beyond a limit", () => {
    const circle = (length: number) =>
      Array.from({ length }, (_, i) => `r${i} ::= r${(i + 1) % length} "a" | "b"`).join("\n");
    const states = (length: number) =>
      new Configurations(compileAutomaton(parseEbnf(circle(length), { root: "r0" })));
    expect(acceptsBytes(states(20), "baaa")).toBe(true);
    expect(acceptsBytes(states(20), "bb")).toBe(false);
    expect(() => states(65)).toThrow('more than 64 rules begin with each other, such as "r');
    const deep = `root ::= ${"(".repeat(2000)}root "a" | "b"${' "c")'.repeat(2000)}`;
    expect(() => parseEbnf(deep)).toThrow("nest too deep");
  });
});

function isJson(value: string): boolean {
  try {
    JSON.parse(value);
    return true;
  } catch {
    return false;
  }
}

describe("parseEbnf", () => {
  test.each<[string, Expression]>([
    ['root ::= "ab"', text("ab")],
    ["root ::= 'ab'", text("ab")],
    [`root ::= "it's" 'a "b"'`, sequence([text("it's"), text('a "b"')])],
    ['root::="a"|"b"', choice([a, b])],
    ['root ::= "a" | "b" "a"', choice([a, sequence([b, a])])],
    [
      'root ::= ("a" | "b")* "a"+ "b"?',
      sequence([repeat(choice([a, b])), repeat(a, { min: 1 }), optional(b)]),
    ],
    [
      'root ::= "ab"{2} "a"{3,} "b"{0,4}',
      sequence([
        repeat(text("ab"), { min: 2, max: 2 }),
        repeat(a, { min: 3 }),
        repeat(b, { max: 4 }),
      ]),
    ],
    ['root ::= "a" {1 , 2}', repeat(a, { min: 1, max: 2 })],
    ['root ::= ""', EMPTY],
    ["root ::= ()", EMPTY],
    // llama.cpp takes an empty option for the empty text, and its own grammars have them.
    ['root ::= "a" |', choice([a, EMPTY])],
    ['root ::= | "a"', choice([EMPTY, a])],
    ["root ::= .", { kind: "class", points: ANY_CODE_POINT }],
    ["root ::= [abé語]", { kind: "class", points: codePointsOf("abé語") }],
    ["root ::= [а-я]", { kind: "class", points: [[0x430, 0x44f]] }],
    ["root ::= [-a]", { kind: "class", points: codePointsOf("-a") }],
    ["root ::= [a-]", { kind: "class", points: codePointsOf("-a") }],
    ["root ::= [+--]", { kind: "class", points: [[0x2b, 0x2d]] }],
    ["root ::= [\\]\\\\\\-\\^]", { kind: "class", points: codePointsOf("]\\-^") }],
    ["root ::= [a^]", { kind: "class", points: codePointsOf("a^") }],
    ["root ::= [\\x41-\\u0043\\U0001F600]", { kind: "class", points: codePointsOf("ABC😀") }],
    ['root ::= "\\n\\t\\r\\"\\\'\\\\\\x41\\u00e9\\U0001F600"', text("\n\t\r\"'\\Aé😀")],
    ['root ::= "\\ud83d\\ude00"', text("😀")],
    ['# note\nroot ::= "a" # "b"\n  # more\n| "b"', choice([a, b])],
    ['root ::= "a" |\n  "b"', choice([a, b])],
    ['root ::=\r\n "a"\r\n | "b"', choice([a, b])],
    ['root ::= ("a"\n "b"\n)\n"a"', sequence([sequence([a, b]), a])],
    ['root ::= x-1\nx-1 ::= "a"', rule("x-1")],
    ['root ::= x_y.z\n\n\tx_y.z ::= "a"', rule("x_y.z")],
    ['root ::= "a" . "b"', sequence([a, { kind: "class", points: ANY_CODE_POINT }, b])],
  ])("reads %j", (source, expected) => {
    expect(rootOf(source)).toEqual(expected);
  });

  test("a class without some characters has all others", () => {
    const other = automatonOf(rootOf('root ::= [^"\\\\a-zé]'));
    for (const value of ["A", "語", "😀", "\n", "è"]) expect(accepts(other, value)).toBe(true);
    for (const value of ['"', "\\", "m", "é", "", "AA"]) expect(accepts(other, value)).toBe(false);
  });

  test.each([
    ["[а-я]+", "привет", "Привет"],
    ["[一-龥]{2}", "漢字", "漢a"],
    ["[éà]", "é", "è"],
    ["[😀-😂]", "😁", "😃"],
    ["[^а-я]", "q", "ж"],
  ])("characters beyond ASCII match in bytes: %s", (members, yes, no) => {
    const states = new Configurations(compileAutomaton(parseEbnf(`root ::= ${members}`)));
    expect(acceptsBytes(states, yes)).toBe(true);
    expect(acceptsBytes(states, no)).toBe(false);
  });

  test("another rule can be the root", () => {
    const { root, rules } = parseEbnf('first ::= second "a"\nsecond ::= "b"', { root: "first" });
    expect(root).toBe("first");
    expect([...rules.keys()]).toEqual(["first", "second"]);
  });

  test.each<[string, number, string]>([
    ["", 0, 'rule "root"'],
    ['first ::= "a"', 13, 'rule "root"'],
    ['root ::= "a" other', 13, 'rule "other"'],
    ["root ::= a.*", 9, 'rule "a."'],
    ['root ::= "a"\nroot ::= "b"', 13, "defined twice"],
    ['root ::= "a" x ::= "b"', 13, "does not begin a line"],
    ['"a"', 0, "where a rule should begin"],
    ['root = "a"', 0, '"::=" is missing'],
    ["root ::=", 0, 'rule "root" has nothing behind "::="'],
    ["root ::= # a note\n", 0, 'rule "root" has nothing'],
    ['root ::=\nx ::= "a"', 0, 'rule "root" has nothing'],
    ['root ::= x "a"\n x ::=\n', 16, 'rule "x" has nothing'],
    ["root ::= | |", 0, 'rule "root" has nothing'],
    ['root ::= "a', 9, "does not end"],
    ['root ::= "a\nb"', 9, "does not end"],
    ["root ::= [ab", 9, "does not end"],
    ["root ::= []", 9, "no characters"],
    ["root ::= [b-a]", 10, "out of order"],
    ["root ::= [\\d]", 10, '"\\d"'],
    ['root ::= "\\q"', 10, '"\\q"'],
    ['root ::= "\\x4"', 10, "hexadecimal"],
    ['root ::= "\\x41B"', 10, "disagree"],
    ['root ::= "\\U00110000"', 10, "not a code point"],
    ['root ::= "\\ud800"', 9, "half a surrogate"],
    ["root ::= [\\ud800-\\udfff]", 9, "half a surrogate"],
    ['root ::= ("a"', 9, '")" is missing'],
    ['root ::= ("a"\nx ::= "b"', 9, '")" is missing'],
    ['root ::= "a")', 12, "closes no group"],
    ["root ::= *", 9, "nothing to repeat"],
    ['root ::= "a"+?', 13, "nothing to repeat"],
    ['root ::= "a"{2}{3}', 15, "nothing to repeat"],
    ['root ::= "a"{,}', 12, "bounds"],
    ['root ::= "a"{3,2}', 12, "out of order"],
    ['root ::= "a"{1000001}', 12, "1000000"],
    ['root ::= "a" (?<="a") "b"', 13, "lookbehind"],
    ["root ::= <think>", 9, "token"],
    ['root ::= !"a"', 9, "excluded token"],
    ['root ::= "a" // note', 13, "comment"],
    ['root ::= TagDispatch(("a", x))', 9, 'macro "TagDispatch"'],
    ['root ::= "a";', 12, '";"'],
    ['root ::= "a" ::= "b"', 13, '":"'],
  ])("refuses %j at %i", (source, position, reason) => {
    const error = errorOf(source);
    expect(error.message).toContain(reason);
    expect(error.position).toBe(position);
  });

  test("an error says line and column", () => {
    const error = errorOf('root ::= "a"\r\n  | b\nc ::= "d"');
    expect(error.message).toContain("line 2, column 5");
    expect(error.position).toBe(18);
  });

  test.each([
    ["groups", `root ::= ${"(".repeat(100_000)}"a"${")".repeat(100_000)}`],
    ["open groups", `root ::= ${"(".repeat(100_000)}`],
    ["repeated groups", `root ::= ${"(".repeat(50_000)}"a"${"[b])*".repeat(50_000)}`],
    ["options", `root ::= ${'"a"|'.repeat(100_000)}`],
    [
      "rules",
      `root ::= "a"\n${Array.from({ length: 30_000 }, (_, i) => `r${i} ::= "b"`).join("\n")}`,
    ],
    [
      "rules in a row",
      `root ::= r0\n${Array.from({ length: 30_000 }, (_, i) => `r${i} ::= r${i + 1}`).join("\n")}\nr30000 ::= "b"`,
    ],
    [
      "rules in a circle",
      `root ::= r0\n${Array.from({ length: 30_000 }, (_, i) => `r${i} ::= r${(i + 1) % 30_000}`).join("\n")}`,
    ],
    ["comments", `root ::= ${"#\n".repeat(100_000)}"a"`],
    ["references", `root ::= ${"x ".repeat(100_000)}\nx ::= "a"`],
  ])("needs no stack for many %s", (_, source) => {
    try {
      compileAutomaton(parseEbnf(source));
    } catch (error) {
      expect(error).toBeInstanceOf(GrammarError);
    }
  });
});
