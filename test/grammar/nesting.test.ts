import { describe, expect, test } from "vitest";
import type { ConstraintKind } from "../../src/constraint.ts";
import { frontEnds } from "../../src/grammar/constraints/backends.ts";
import { GrammarCompiler } from "../../src/grammar/grammar.ts";
import { GrammarError } from "../../src/grammar/grammar_error.ts";
import { smallVocabulary } from "./samples/small_vocabulary.ts";

const compiler = new GrammarCompiler({
  vocabulary: smallVocabulary({ tokens: ["</s>", "a", "(", ")"], special: [0], endTokens: [0] }),
  frontEnds: frontEnds(),
});

const nested = (open: string, inner: string, close: string) => (depth: number) =>
  open.repeat(depth) + inner + close.repeat(depth);

const schema = nested('{"properties":{"a":', "{}", "}}");
const items = nested('{"items":', "true", "}");
const not = nested('{"not":', "true", "}");
const anyOf = nested('{"anyOf":[', "true", "]}");
const list = nested("[", "1", "]");
const tag = (inner: string) =>
  `{"triggers":["<"],"structures":[{"begin":"<a>","schema":${inner},"end":""}]}`;

const SOURCES: readonly [string, ConstraintKind, (depth: number) => string][] = [
  ["groups", "regex", nested("(", "a", ")")],
  ["repeated groups", "regex", nested("(", "a", ")?")],
  ["lookaheads", "regex", nested("(?=", "a", ")")],
  ["alternatives", "regex", nested("(a|", "a", ")")],
  ["EBNF groups", "ebnf", (depth) => `root ::= ${nested("(", '"a"', ")")(depth)}`],
  ["repeated EBNF groups", "ebnf", (depth) => `root ::= ${nested("(", '"a"', ")*")(depth)}`],
  ["properties", "json_schema", schema],
  ["items", "json_schema", items],
  ["not", "json_schema", not],
  ["anyOf", "json_schema", anyOf],
  ["enum", "json_schema", (depth) => `{"enum":[${list(depth)}]}`],
  ["const", "json_schema", (depth) => `{"const":${nested('{"a":', "1", "}")(depth)}}`],
  ["pattern", "json_schema", (depth) => `{"pattern":"${nested("(", "a", ")")(depth)}"}`],
  ["tags", "structural_tag", (depth) => tag(items(depth))],
  ["a tag of lists", "structural_tag", (depth) => tag(list(depth))],
  ["choices", "choice", (depth) => list(depth)],
];

describe.each(SOURCES)("%s inside of each other", (_, kind, source) => {
  test.each([2000, 100_000])("at %i levels are compiled or refused as grammars", (depth) => {
    let error: unknown;
    try {
      compiler.compile({ kind, source: source(depth) });
    } catch (thrown) {
      error = thrown;
    }
    if (error !== undefined) expect(error).toBeInstanceOf(GrammarError);
  });
});
