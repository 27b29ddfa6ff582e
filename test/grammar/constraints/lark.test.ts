import { describe, expect, test } from "vitest";
import type { Constraint } from "../../../src/grammar/grammar.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { compiler, follow } from "../samples/special_tokens.ts";

const lark = (source: string): Constraint => ({ kind: "ebnf", source });

/** A language as people write it in Lark, with calls, left recursion and comments. */
const CALCULATOR = `
  // sums of products
  %import common.NUMBER
  %import common (WS, CNAME)
  %ignore WS
  ?start: sum
  ?sum: product
      | sum "+" product   -> add
      | sum "-" product   -> sub
  ?product: atom
      | product "*" atom  -> mul   # left recursive, as Lark has it
  ?atom: NUMBER           -> number
      | "-" atom
      | CNAME [ "(" [ sum ("," sum)* ] ")" ]
      | "(" sum ")"`;

describe("grammars in Lark's notation", () => {
  test.each<[string, string, readonly string[], readonly string[]]>([
    [
      "a calculator",
      CALCULATOR,
      ["1", "1+2*3", "-(a - 2.5e3 ) ", "f()*g( 1 ,x)+h"],
      ["", "1+", " 1", "(1", "1 2", "f(,)"],
    ],
    ["a text", 'start: "a\\n\\"\\u00e9"', ['a\n"é'], ["a"]],
    ["a text in any case", 'start: "Yes-1"i', ["yes-1", "YES-1", "yEs-1"], ["yes1", "ye\u017f-1"]],
    ["a range", 'start: "a".."c" "α".."γ"', ["aα", "cγ"], ["dα", "a", "abα"]],
    ["an expression", "start: /[a-c]+\\/x?/", ["a/", "abc/x"], ["/", "a"]],
    ["flags of an expression", "start: /a./is", ["A\n", "ab"], ["b", "a"]],
    ["repetitions", 'start: "a"~2 "b"~1..2 "c"? "d"* "e"+', ["aabe", "aabbcddee"], ["abe", "aab"]],
    [
      "repetitions in braces",
      'start: "a"{2} "b"{,1} "c"{1,} "d"{0,2}',
      ["aac", "aabccdd"],
      ["aa", "aacddd"],
    ],
    ["what may be absent", 'start: ["a" | "b"] ["c"]', ["", "a", "bc", "c"], ["ab", "ca"]],
    ["empty options", 'start: x "."\nx: | "a"', [".", "a."], ["a"]],
    ["an empty rule", 'start: x "."\nx:', ["."], [""]],
    ["options on several lines", 'start: "a"\n\n     // or\n     | "b"\n', ["a", "b"], ["ab"]],
    ["groups on several lines", 'start: ("a"\n  "b" # both\n)\n', ["ab"], ["a"]],
    ["priorities", 'start.2: A\nA.-1: "a" "b"', ["ab"], ["a"]],
    ["recursion", 'start: "(" start ")" | "x"', ["x", "((x))"], ["(x", "()"]],
    [
      "nothing ignored inside a terminal",
      '%ignore " "\nstart: AB "c"\nAB: "a" B\nB: "b"',
      ["abc", "ab c  "],
      ["a bc", " abc"],
    ],
    [
      "what is ignored at the start",
      '%grammar_options {"allow_initial_skip": true}\n%ignore / +/\nstart: "a"+',
      ["a", " a", " a  a "],
      ["", " "],
    ],
    ["names of imports", "%import common.INT -> N\nstart: N /,/ N", ["1,22"], [",1", "1"]],
    [
      "the library",
      "%import common (ESCAPED_STRING, C_COMMENT, SIGNED_NUMBER, NEWLINE)\n" +
        "start: ESCAPED_STRING C_COMMENT SIGNED_NUMBER NEWLINE",
      ['"a\\"b"/* * / */-.5e1\r\n', '""/***/3\n\n'],
      ['"a"b"/**/1\n', '"a"/**/ */1\n', '""/**/+\n'],
    ],
    [
      "a schema",
      'start: "<" %json {"type": "object", "properties": {"}": {"enum": [1]}}, "required": ["}"]} ">"\nstring: "s"',
      ['<{"}": 1}>'],
      ["<{}>", '<{"}": 2}>'],
    ],
    [
      "a special token",
      "start: <think> /[a-z]*/ </think>",
      ["[[<think>]]a[[</think>]]"],
      ["<think>a</think>"],
    ],
  ])("%s", (_, source, yes, no) => {
    for (const text of yes) expect(follow(lark(source), text), text).toBe("complete");
    for (const text of no) expect(follow(lark(source), text), text).not.toBe("complete");
  });

  test.each<[string, string, string]>([
    ["a: b", 'rule "b"', "line 1, column 4"],
    ['a: "b"', 'rule "start"', "line 1, column 7"],
    ['start: "a"\nstart: "b"', '"start" is defined twice', "line 2, column 1"],
    ['start: "a" start2: "b"', '":" is unexpected', "line 1, column 18"],
    ['start: "a"\n  "b"', "where a rule should begin", "line 2, column 3"],
    ['start: ("a"', '")" is missing', "line 1, column 8"],
    ['start: "a")', '")" is unexpected', "column 11"],
    ['start: ["a")', '")" is unexpected', "column 12"],
    ["start: *", "nothing to repeat", "column 8"],
    ['start: "a"+?', "nothing to repeat", "column 12"],
    ['start: "a"~3..2', "out of order", "column 11"],
    ['start: "a"~2000000', "1000000", "column 11"],
    ['start: "a', "does not end on its line", "column 8"],
    ["start: /a", "does not end on its line", "column 8"],
    ['start: "\\q"', 'escape "\\q"', "column 8"],
    ['start: "é"i', "not ASCII", "column 8"],
    ['start: "b".."a"', "out of order", "column 8"],
    ['start: "ab".."c"', "one character", "column 8"],
    ["start: /a/u", 'flag "u"', "column 8"],
    ["start: /(a/", '")" is missing', "column 8"],
    ["start: /a(?<=b)/ /b/", "lookbehind", "column 8"],
    ["start: /^a/", "anchors", "column 8"],
    ["start: /\\bx/", "word boundaries", "column 8"],
    ["start: A\nA: b\nb: /x/", 'rule "b": it stands inside a terminal', "line 2, column 4"],
    ["start: A\nA: %json {}", "%json: it stands inside a terminal", "line 2, column 4"],
    ["start: A\nA: <think>", "special token: it stands inside a terminal", "line 2, column 4"],
    ["start: <other>", 'token "<other>"', "column 8"],
    ["start: <[3]>", "token by its number", "column 8"],
    ["start: @x", "grammar by its name", "column 8"],
    ["start: x{y}", 'template "x"', "column 8"],
    ["x{y}: y\nstart: x", 'template "x"', "column 2"],
    ['start[lazy]: "a"', 'attributes of "start"', "column 6"],
    ["%declare A\nstart: A", 'directive "%declare"', "column 1"],
    ["%import python.NAME\nstart: NAME", "the only library", "column 9"],
    ["%import common.NAME\nstart: NAME", 'import "NAME"', "column 9"],
    ['%grammar_options {"x": 1}\nstart: "a"', 'option "x"', "column 1"],
    ["start: %json {", "does not end", "column"],
    ["start: %json {a}", "not JSON", "column"],
    ['start: %json {"minimum": "1"}', "minimum", "column 8"],
    ['start: %lark {\nstart: "a"\n}', "%json", "column 8"],
  ])("refuses %j", (source, problem, place) => {
    const compile = () => compiler.compile(lark(source));
    expect(compile).toThrow(GrammarError);
    expect(compile).toThrow(problem);
    expect(compile).toThrow(place);
  });

  test("is told from EBNF by the first definition", () => {
    expect(follow(lark('# start: "b"\nroot ::= "a:" "start: x"'), "a:start: x")).toBe("complete");
    expect(follow(lark('// root ::= "b"\nstart: "::="'), "::=")).toBe("complete");
    expect(() => compiler.compile(lark("root = x"))).toThrow('"::=" is missing');
  });

  test("is a format of structural tags too", () => {
    const format = { type: "grammar", grammar: 'start: start "," "a" | "a"' };
    const source = JSON.stringify({ format });
    expect(follow({ kind: "structural_tag", source }, "a,a,a")).toBe("complete");
  });

  test("what is ignored of a schema is told", () => {
    const source = 'start: %json {"minimun": 1}';
    expect(compiler.compile(lark(source)).warnings).toEqual([
      'Ignored "minimun": it is no keyword of JSON Schema; did you mean "minimum"? (at /minimun)',
    ]);
  });
});

describe("GBNF", () => {
  test.each<[string, readonly string[], readonly string[]]>([
    ['root ::= "a"{,2} "b"', ["b", "aab"], ["aaab", "a"]],
    ["root ::= <think> [^<]* </think>", ["[[<think>]]x[[</think>]]"], ["<think>x</think>"]],
    ['root ::= item+ # list\nitem ::= "- " [^\\n]+ "\\n"', ["- a\n- b\n"], ["- a", "-a\n"]],
  ])("%j", (source, yes, no) => {
    for (const text of yes) expect(follow(lark(source), text), text).toBe("complete");
    for (const text of no) expect(follow(lark(source), text), text).not.toBe("complete");
  });

  test.each([
    ["root ::= <other>", 'token "<other>"'],
    ["root ::= <[3]>", "token by its number"],
    ["root ::= !<think>", "excluded token"],
    ["root ::= <", "<name>"],
  ])("refuses %j", (source, problem) => {
    expect(() => compiler.compile(lark(source))).toThrow(problem);
  });
});
