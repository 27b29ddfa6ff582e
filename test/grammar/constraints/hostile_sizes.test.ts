/**
 * Constraints that are small to send and whose parts multiply: they are refused before memory is
 * full, or compiled by work in proportion to their size.
 */
import { expect, test, vi } from "vitest";
import { frontEnds } from "../../../src/grammar/constraints/backends.ts";
import { Marks } from "../../../src/grammar/constraints/marks.ts";
import { type Constraint, GrammarCompiler } from "../../../src/grammar/grammar.ts";
import { GrammarVocabulary } from "../../../src/grammar/masks/grammar_vocabulary.ts";

const NO_TOKENS = { size: 0, bytes: () => new Uint8Array(), isSpecial: () => false };
const vocabulary = new GrammarVocabulary(NO_TOKENS, { endTokens: [] });

function compile(kind: Constraint["kind"], source: string) {
  return new GrammarCompiler({ vocabulary, frontEnds: frontEnds() }).compile({ kind, source });
}

const list = <T>(length: number, make: (i: number) => T): T[] =>
  Array.from({ length }, (_, i) => make(i));

test("lookaheads whose ways multiply are refused", () => {
  const characters = list(300, (i) => String.fromCodePoint(0x4e00 + i));
  const looks = [15, 16, 17].map(
    (k) => `(?=.*a.{${k}}b|${characters.map((one) => `.${one}`).join("|")})`,
  );
  expect(() => compile("regex", `${looks.join("")}.*`)).toThrow("too much work");
});

const leftRecursive = (options: string, depth: number) =>
  `root ::= ${"(".repeat(depth)}${options}${') "y"'.repeat(depth)}`;

test("options of a left-recursive rule are not copied by each group around them", () => {
  const grammar = compile("ebnf", leftRecursive(`root "x"${'|"a"'.repeat(55_000)}`, 495));
  const end = "y".repeat(495);
  expect(grammar.accepts(`a${end}`)).toBe(true);
  expect(grammar.accepts(`a${end}x${end}`)).toBe(true);
  expect(grammar.accepts(`a${end}x`)).toBe(false);
  const ways = list(20_000, () => 'root "x"').join(" | ");
  expect(() => compile("ebnf", leftRecursive(`"a" | ${ways}`, 495))).toThrow("too much work");
});

test("ends of a tag are limited as other words of free text are", () => {
  const tag = (count: number, content: object = { type: "any_text" }) => {
    const end = list(count, (i) => String.fromCodePoint(0x4e00 + i));
    return JSON.stringify({ format: { type: "tag", begin: "x", content, end } });
  };
  expect(compile("structural_tag", tag(70)).accepts("xsome text\u4e09")).toBe(true);
  expect(() => compile("structural_tag", tag(2_500))).toThrow("too many or too long");
  const excludes = list(140, (i) => String.fromCodePoint(0x3400 + i));
  const both = tag(140, { type: "any_text", excludes });
  expect(() => compile("structural_tag", both)).toThrow("too many or too long");
  const texts = { type: "or", elements: list(5_000, () => ({ type: "any_text" })) };
  expect(() => compile("structural_tag", tag(140, texts))).toThrow("too much work");
});

test("names of special tokens that a text does not have are searched for once", () => {
  const names = list(250, (i) => `<|reserved_${i}|>`);
  const marks = new Marks(new Map([...names, "<|end|>", "<|"].map((name, i) => [name, i])));
  const search = vi.spyOn(String.prototype, "indexOf");
  try {
    const spelled = marks.spell("<|end|>a<|".repeat(2_000));
    expect(search.mock.calls.length).toBeLessThan(3 * 4_000 + names.length);
    if (spelled.kind !== "sequence") throw new Error("a sequence");
    // Two marks of five bytes, and a text.
    expect(spelled.parts.length).toBe(2_000 * 11);
  } finally {
    search.mockRestore();
  }
});

test("an object of more properties than can be followed at once is refused", () => {
  const keys = list(8_001, (i) => `${i.toString(36)}a`);
  const object = (names: readonly string[]) => {
    const properties = Object.fromEntries(names.map((name) => [name, { const: 1 }]));
    return JSON.stringify({ type: "object", properties, additionalProperties: false });
  };
  expect(() => compile("json_schema", object(keys))).toThrow("more than 8000 properties");
  expect(compile("json_schema", object(keys.slice(1))).accepts('{"1a": 1}')).toBe(true);
});
