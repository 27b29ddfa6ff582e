import { describe, expect, test } from "vitest";
import type { Constraint } from "../../../src/grammar/grammar.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { compiler, follow, SPECIAL } from "../samples/special_tokens.ts";

const tag = (format: unknown): Constraint => ({
  kind: "structural_tag",
  source: JSON.stringify({ type: "structural_tag", format }),
});
const word = (value: string) => ({ type: "const_string", value });
const between = (begin: unknown, content: unknown, end: unknown) => ({
  type: "tag",
  begin,
  content,
  end,
});
const ANY = { type: "any_text" };
const INTEGER = { type: "json_schema", json_schema: { type: "integer" } };
const call = (name: string) => between(`<f=${name}>`, INTEGER, "</f>");
const calls = { triggers: ["<f="], tags: [call("a"), call("b")] };

describe("formats of structural tags", () => {
  test.each<[string, unknown, readonly string[], readonly string[]]>([
    ["a text", word("é!"), ["é!"], ["", "e", "é!!"]],
    ["a schema", INTEGER, ["12", "-3"], ["", "1.5", '"1"']],
    ["an expression", { type: "regex", pattern: "(?!ab)[a-c]{2}" }, ["aa", "cb"], ["ab", "a"]],
    [
      "a grammar",
      { type: "grammar", grammar: 'root ::= root "+" n | n\nn ::= [0-9]' },
      ["1", "1+2+3"],
      ["", "+", "1+"],
    ],
    ["any text", ANY, ["", "anything <at> all\n"], ["[[think]]"]],
    ["text without words", { ...ANY, excludes: ["no", "oh"] }, ["", "on", "n o"], ["no", "a oh"]],
    ["text of a length", { ...ANY, max_chars: 2 }, ["", "é😀"], ["abc"]],
    [
      "text of a length without words",
      { ...ANY, max_chars: 3, excludes: ["b"], max_tokens: null },
      ["", "aaa"],
      ["b", "aaaa"],
    ],
    ["a token", { type: "token", token: "<think>" }, ["[[<think>]]"], ["<think>", ""]],
    [
      "a token by number",
      { type: "token", token: 256 + SPECIAL.indexOf("<unused>") },
      ["[[unused]]"],
      ["", "a"],
    ],
    [
      "one after another",
      { type: "sequence", elements: [word("a"), INTEGER, word("b")] },
      ["a1b"],
      ["a1", "1b"],
    ],
    ["any of some", { type: "or", elements: [word("a"), INTEGER] }, ["a", "7"], ["", "a7"]],
    ["an option", { type: "optional", content: word("ab") }, ["", "ab"], ["a", "abab"]],
    ["any number", { type: "star", content: word("ab") }, ["", "ab", "abab"], ["aba"]],
    ["at least one", { type: "plus", content: word("ab") }, ["ab", "abab"], ["", "aba"]],
    [
      "a number in bounds",
      { type: "repeat", min: 1, max: 2, content: word("a") },
      ["a", "aa"],
      ["", "aaa"],
    ],
    [
      "a number from",
      { type: "repeat", min: 2, max: -1, content: word("a") },
      ["aa", "aaaaa"],
      ["a"],
    ],
    [
      "a tag",
      between("<n>", INTEGER, "</n>"),
      ["<n>4</n>"],
      ["<n>4", "4", "<n>a</n>", "<n>4</n>."],
    ],
    ["ends of a tag", between("<", word("x"), [">", "!"]), ["<x>", "<x!"], ["<x", "<x>!"]],
    [
      "tokens around a tag",
      between({ type: "token", token: "<think>" }, ANY, { type: "token", token: "</think>" }),
      ["[[<think>]]so </think>[[</think>]]", "[[<think>]][[</think>]]"],
      ["<think>a[[</think>]]", "[[<think>]]a", "[[<think>]]a[[unused]]"],
    ],
    [
      "text up to the end of its tag",
      between("<", ANY, "aa"),
      ["<aa", "<baa", "<a baa"],
      ["<aaa", "<baab", "<aabaa"],
    ],
    [
      "text up to one of the ends",
      between("<", ANY, ["x", "yy"]),
      ["<x", "<ayy", "<yx"],
      ["<yyx", "<xyy"],
    ],
    [
      "text of a length up to the end",
      between("<", { ...ANY, max_chars: 2, excludes: ["!", "..."] }, "..."),
      ["<...", "<ab...", "<.a..."],
      ["<abc...", "<a!...", "<......"],
    ],
    [
      "text that ends a sequence in a tag",
      between("<", { type: "sequence", elements: [INTEGER, word(":"), ANY] }, ">"),
      ["<1:>", "<12:a<b>"],
      ["<1:>>", "<:>"],
    ],
    [
      "text among options in a tag",
      between("<", { type: "or", elements: [INTEGER, { ...ANY, excludes: ["1"] }] }, ">"),
      ["<1>", "<a>", "<>"],
      ["<1a>", "<>>"],
    ],
    [
      "free text with tags",
      { type: "triggered_tags", ...calls },
      ["", "text <f", "a <f=a>1</f> b <f=b>2</f>", "<f=a>1</f><f=a>2</f>"],
      ["<f=", "<f=c>1</f>", "<f=a>1</f", "<f=a>x</f>"],
    ],
    [
      "at least one tag",
      { type: "triggered_tags", ...calls, at_least_one: true },
      ["<f=a>1</f>", "<f=a>1</f> more", "<f=a>1</f> <f=b>2</f>"],
      ["", " <f=a>1</f>"],
    ],
    [
      "at most one tag",
      { type: "triggered_tags", ...calls, stop_after_first: true },
      ["", "text", "text <f=a>1</f>"],
      ["<f=a>1</f> ", "<f=a>1</f><f=b>2</f>"],
    ],
    [
      "exactly one tag",
      { type: "triggered_tags", ...calls, at_least_one: true, stop_after_first: true },
      ["<f=a>1</f>"],
      ["", "a<f=a>1</f>", "<f=a>1</f>."],
    ],
    [
      "free text with tags and without words",
      { type: "triggered_tags", ...calls, excludes: ["bad"] },
      ["ba", "ba<f=a>1</f>d"],
      ["bad", "<f=a>1</f>bad"],
    ],
    [
      "free text with tags inside a tag",
      between("<t>", { type: "triggered_tags", ...calls }, "</t>"),
      ["<t></t>", "<t>a<f=a>1</f>b</t>", "<t></t</t>"],
      ["<t>a", "<t></t>a</t>", "<t></t></t>"],
    ],
    [
      "at most one tag inside a tag",
      between("<t>", { type: "triggered_tags", ...calls, stop_after_first: true }, "</t>"),
      ["<t>a</t>", "<t>a<f=a>1</f></t>"],
      ["<t><f=a>1</f> </t>"],
    ],
    [
      "free text with tokens that begin tags",
      {
        type: "triggered_tags",
        triggers: ["<｜tool▁call▁begin｜>"],
        tags: [between("<｜tool▁call▁begin｜>f", INTEGER, "<｜tool▁call▁end｜>")],
      },
      ["a", "a[[call▁begin]]f1[[call▁end]]b", "<｜tool▁call▁begin｜>g"],
      ["[[call▁begin]]g", "[[call▁end]]"],
    ],
    [
      "free text with formats behind words",
      {
        type: "dispatch",
        rules: [
          ["#n ", INTEGER],
          ["#w ", word("x")],
        ],
      },
      ["", "a #", "a #n 1", "#n 1 and #w x."],
      ["#n ", "#n x", "#w 1"],
    ],
    [
      "free text up to one format",
      { type: "dispatch", rules: [["#", word("x")]], loop: false, excludes: ["!"] },
      ["a", "a#x"],
      ["#x ", "!", "#!"],
    ],
    [
      "a list of tags",
      { type: "tags_with_separator", tags: calls.tags, separator: ", " },
      ["", "<f=a>1</f>", "<f=a>1</f>, <f=b>2</f>, <f=a>3</f>"],
      ["<f=a>1</f>, ", "<f=a>1</f><f=b>2</f>", " "],
    ],
    [
      "a list of tags that is not empty",
      { type: "tags_with_separator", tags: calls.tags, separator: "", at_least_one: true },
      ["<f=a>1</f>", "<f=a>1</f><f=b>2</f>"],
      [""],
    ],
    [
      "a list of one tag",
      { type: "tags_with_separator", tags: [call("a")], separator: ",", stop_after_first: true },
      ["", "<f=a>1</f>"],
      ["<f=a>1</f>,"],
    ],
    [
      "thoughts, then calls",
      {
        type: "sequence",
        elements: [between("<t>", ANY, "</t>"), { type: "triggered_tags", ...calls }],
      },
      ["<t>hm</t>", "<t><f=</t>so <f=a>1</f>"],
      ["so", "<t>hm</t><f="],
    ],
  ])("%s", (_, format, yes, no) => {
    for (const text of yes) expect(follow(tag(format), text), text).toBe("complete");
    for (const text of no) expect(follow(tag(format), text), text).not.toBe("complete");
  });

  const deep = (depth: number) => {
    let format: unknown = word("a");
    for (let i = 0; i < depth; i++) format = { type: "star", content: format };
    return format;
  };

  test.each<[unknown, string]>([
    [1, "it must be an object (at /format)"],
    [{ type: "text" }, "it must be one of const_string, "],
    [{ type: "any_tokens" }, "any_tokens cannot be enforced (at /format/type)"],
    [{ type: "token", token: "<unknown>" }, "(at /format/token)"],
    [{ type: "token", token: 65 }, "no such special token"],
    [{ type: "const_string" }, "(at /format/value)"],
    [{ type: "const_string", value: "\ud800" }, "half a surrogate pair"],
    [{ type: "const_string", value: "a", end: "" }, "there is no such field (at /format/end)"],
    [{ type: "json_schema" }, "it is missing (at /format/json_schema)"],
    [{ ...INTEGER, style: "qwen_xml" }, 'only "json" can be enforced'],
    [{ ...INTEGER, any_order: true }, "(at /format/any_order)"],
    [{ type: "json_schema", json_schema: { minimum: "1" } }, "/format: cannot"],
    [
      { type: "regex", pattern: "(a)\\1" },
      "the structural tag's /format: cannot use the backreference",
    ],
    [{ type: "grammar", grammar: "root ::= x" }, 'cannot find rule "x"'],
    [{ ...ANY, max_tokens: 3 }, "use max_chars (at /format/max_tokens)"],
    [{ ...ANY, max_chars: -1 }, "(at /format/max_chars)"],
    [{ ...ANY, excludes: [""] }, "(at /format/excludes)"],
    [{ ...ANY, excludes: Array.from({ length: 150 }, () => "a") }, "too many or too long"],
    [{ type: "sequence", elements: [] }, "(at /format/elements)"],
    [{ type: "sequence", elements: [word("a"), 2] }, "(at /format/elements/1)"],
    [{ type: "repeat", min: 2, max: 1, content: ANY }, "(at /format/max)"],
    [{ type: "repeat", min: 0, max: 1e9, content: ANY }, "(at /format/max)"],
    [{ type: "star", content: ANY, min: 1 }, "(at /format/min)"],
    [between("a", ANY, []), "(at /format/end)"],
    [between(1, ANY, "b"), "(at /format/begin)"],
    [{ type: "triggered_tags", triggers: ["<g"], tags: calls.tags }, "(at /format/tags/0/begin)"],
    [{ type: "triggered_tags", ...calls, at_least_one: 1 }, "(at /format/at_least_one)"],
    [{ type: "dispatch", rules: [["a"]] }, "(at /format/rules)"],
    [{ type: "dispatch", rules: [[1, ANY]] }, "(at /format/rules)"],
    [{ type: "tags_with_separator", tags: [], separator: "" }, "(at /format/tags)"],
    [deep(101), "more than 100 nest in each other"],
  ])("refuses %j", (format, message) => {
    const compile = () => compiler.compile(tag(format));
    expect(compile).toThrow(GrammarError);
    expect(compile).toThrow(message);
  });

  test("beside structures there is no format", () => {
    const source = JSON.stringify({ format: ANY, triggers: ["a"] });
    const compile = () => compiler.compile({ kind: "structural_tag", source });
    expect(compile).toThrow("there is no such field (at /triggers)");
  });

  test("what is ignored of a schema is told", () => {
    const typo = { type: "json_schema", json_schema: { minimun: 1 } };
    expect(compiler.compile(tag(between("<", typo, ">"))).warnings).toEqual([
      'Ignored "minimun": it is no keyword of JSON Schema; did you mean "minimum"? (at /minimun)',
    ]);
  });
});
