import { expect, test } from "vitest";
import {
  compileGrammar,
  GrammarError,
  type GrammarSource,
  InvalidRequestError,
} from "../../../src/index.ts";

test.each([
  [{ jsonSchema: { type: "integer", minimum: 3 } }, ["3", "17"], ["2", "3.5", '"3"', " 3"]],
  [{ jsonSchema: true }, ["null", '{"a": []}'], ["", "{"]],
  [{ jsonSchema: '{"const": "é"}' }, ['"é"', '"\\u00e9"'], ['"e"']],
  [{ regex: "[a-c]{2}" }, ["ab"], ["a", "abc"]],
  [{ ebnf: 'root ::= "(" root? ")"' }, ["(())"], ["(()"]],
  [{ ebnf: 'start: start "," "a" | "a"' }, ["a", "a,a"], ["a,"]],
  [{ regex: "(?!.*--)[a-z-]+(?<!-)" }, ["a-b"], ["a--b", "a-"]],
  [
    { jsonSchema: { type: "string", pattern: "^(?!.*--)[a-z0-9-]{1,63}(?<!-)$" } },
    ['"a-b"', '"\\u0061"'],
    ['"a--b"', '"a-"', '""'],
  ],
  [
    {
      jsonSchema: {
        type: "object",
        patternProperties: { "^(?!x-)": { type: "integer" } },
        additionalProperties: { type: "string" },
      },
    },
    ['{"a":1}', '{"x-a":"b"}'],
    ['{"a":"b"}', '{"x-a":1}'],
  ],
  [
    { structuralTag: { format: { type: "or", elements: [{ type: "const_string", value: "a" }] } } },
    ["a"],
    ["", "b"],
  ],
  [
    { choice: ["yes", "a.b*", "é\n", '"', "yes", "yes sir"] },
    ["yes", "yes sir", "a.b*", "é\n", '"'],
    ["", "ye", "yesyes", "aXb", "a.b", "yes "],
  ],
  [{ choice: ["", "a"] }, ["", "a"], ["aa"]],
  [
    {
      structuralTag: {
        structures: [{ begin: "<n>", schema: { type: "null" }, end: "</n>" }],
        triggers: ["<n>"],
      },
    },
    ["a <n>null</n> b"],
    ["<n>1</n>"],
  ],
] as [GrammarSource, string[], string[]][])("compileGrammar(%j)", (source, yes, no) => {
  const grammar = compileGrammar(source);
  for (const text of yes) expect([text, grammar.accepts(text)]).toEqual([text, true]);
  for (const text of no) expect([text, grammar.accepts(text)]).toEqual([text, false]);
});

test("a matcher follows the tokens of a vocabulary", () => {
  const texts = ["a", "b", "ab", "</s>"];
  const vocabulary = {
    size: texts.length,
    bytes: (id: number) => new TextEncoder().encode(texts[id]),
    isSpecial: (id: number) => id === 3,
  };
  const matcher = compileGrammar({ regex: "abb?" }, { vocabulary, endTokens: [3] }).createMatcher();
  const allowed = () => {
    const mask = new Uint32Array(1);
    matcher.mask(mask);
    return texts.filter((_, id) => (mask[0]! >>> id) & 1);
  };
  expect(allowed()).toEqual(["a", "ab"]);
  expect(matcher.accept(2)).toBe(true);
  expect(allowed()).toEqual(["b", "</s>"]);
  expect([matcher.accept(0), matcher.accept(1)]).toEqual([false, true]);
  expect([allowed(), matcher.mustEnd]).toEqual([["</s>"], true]);
  matcher.rollback(2);
  expect(allowed()).toEqual(["a", "ab"]);
});

test.each([
  [{}, "exactly one of jsonSchema, regex, ebnf, structuralTag, choice, got none"],
  [{ regex: "a", ebnf: "b" }, "got regex and ebnf"],
  [{ regex: /a/ as unknown as string }, "regex must be a string, got object"],
  [{ choice: [] }, "Cannot use the choice: it must have a text to choose"],
  [{ choice: "ab" as unknown as string[] }, "Cannot use the choice: it must be a list of texts"],
  [{ choice: ["a", 1 as unknown as string] }, "it must be a text (at /1)"],
  [{ choice: ["a", "\ud800"] }, "UTF-8 cannot spell half a surrogate pair (at /1)"],
  [{ choice: Array.from({ length: 10_001 }, (_, i) => `${i}`) }, "it has more than 10000 texts"],
  [{ choice: ["x".repeat(100_001)] }, "100000 characters"],
])("compileGrammar(%j) is refused", (source, message) => {
  expect(() => compileGrammar(source)).toThrow(InvalidRequestError);
  expect(() => compileGrammar(source)).toThrow(message);
});

test("JSON is spelled, and schemas are read, as the options say", () => {
  const source = { jsonSchema: { prefixItems: [{ const: 1 }], items: false, minItems: 1 } };
  const accepts = (json: object, text: string) => compileGrammar(source, { json }).accepts(text);
  expect(accepts({}, "[\n  1\n]")).toBe(true);
  expect(accepts({ maxWhitespace: 0 }, "[ 1]")).toBe(false);
  expect(accepts({ maxWhitespace: 0 }, "[1]")).toBe(true);
  const strict = { dialect: "draft-07", unknown: "refuse" };
  expect(() => accepts(strict, "[1]")).toThrow("prefixItems");
});

test("what cannot be enforced is refused with its place", () => {
  expect(() => compileGrammar({ jsonSchema: { items: { pattern: "(a)\\1" } } })).toThrow(
    GrammarError,
  );
});

test("a grammar says what was ignored of its source", () => {
  const jsonSchema = { items: { format: "klingon" } };
  const { warnings } = compileGrammar({ jsonSchema });
  expect(warnings).toEqual(['Ignored the format "klingon": it is not known (at /items/format)']);
  expect(() => compileGrammar({ jsonSchema }, { json: { unknown: "refuse" } })).toThrow("klingon");
  expect(compileGrammar({ regex: "a" }).warnings).toEqual([]);
});

test("numbers too large for a double are refused in objects, and kept in JSON text", () => {
  const text = '{"enum": [1e400]}';
  expect(compileGrammar({ jsonSchema: text }).accepts("1e400")).toBe(true);
  expect(() => compileGrammar({ jsonSchema: JSON.parse(text) })).toThrow(
    "Cannot write jsonSchema as JSON: one of its numbers is too large",
  );
});

test("values that no JSON text can be written of are refused", () => {
  let deep: object = {};
  for (let i = 0; i < 100_000; i++) deep = { not: deep };
  const circle: { not?: object } = {};
  circle.not = circle;
  for (const jsonSchema of [deep, circle]) {
    expect(() => compileGrammar({ jsonSchema })).toThrow("Cannot write jsonSchema as JSON");
  }
});

test("a vocabulary is prepared once for all grammars that are compiled for it", () => {
  let asked = 0;
  const vocabulary = {
    size: 256,
    bytes: (id: number) => {
      asked += 1;
      return Uint8Array.of(id);
    },
    isSpecial: () => false,
  };
  compileGrammar({ regex: "a+" }, { vocabulary, endTokens: [0] });
  const first = asked;
  expect(first).toBeGreaterThan(0);
  const words = new Uint32Array(8);
  compileGrammar({ regex: "[ab]" }, { vocabulary, endTokens: [0] })
    .createMatcher()
    .mask(words);
  expect([asked, words[3]]).toEqual([first, 0b110]);
  // Other end tokens make another one.
  compileGrammar({ regex: "b" }, { vocabulary, endTokens: [97] })
    .createMatcher()
    .mask(words);
  expect([asked > first, words[3]]).toEqual([true, 0b100]);
});
