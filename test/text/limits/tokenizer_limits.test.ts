import { describe, expect, test } from "vitest";
import { CheckpointError } from "../../../src/errors.ts";
import { createTokenizer } from "../../../src/text/tokenizer.ts";
import { byteLevelJson, llamaJson, metaspaceJson } from "../small_tokenizers.ts";

const json = byteLevelJson();
const splits = (pretokenizers: unknown[]) => ({
  ...json,
  pre_tokenizer: { type: "Sequence", pretokenizers },
});
const rewrites = (normalizers: unknown[]) => ({
  ...json,
  normalizer: { type: "Sequence", normalizers },
});
const replace = (content: string, pattern: object = { String: "a" }) => ({
  type: "Replace",
  pattern,
  content,
});
const byteLevel = { type: "ByteLevel", add_prefix_space: false, use_regex: false };

function nested(levels: number, list: string): unknown {
  let inside: unknown = { type: "NFC" };
  for (let i = 0; i < levels; i++) inside = { type: "Sequence", [list]: [inside] };
  return inside;
}

function failure(tokenizerJson: unknown, config?: unknown): string {
  try {
    createTokenizer(tokenizerJson, config);
  } catch (error) {
    expect(error).toBeInstanceOf(CheckpointError);
    return (error as Error).message;
  }
  throw new Error("Cannot fail: the tokenizer was made");
}

describe("a tokenizer.json is refused whose steps", () => {
  test.each<[string, unknown, RegExp]>([
    [
      "cut a text into pieces of nothing",
      { type: "FixedLength", length: 0 },
      /pre_tokenizer.* is 0/,
    ],
    ["cut it backwards", { type: "FixedLength", length: -1 }, /pre_tokenizer.* is -1/],
    ["do not say where to cut", { type: "FixedLength" }, /pre_tokenizer.* is missing/],
    ["have no pattern", { type: "Split" }, /the pattern of its Split is neither/],
    ["have a pattern of numbers", { type: "Replace", pattern: { Regex: 5 } }, /is neither/],
    [
      "have a pattern of megabytes",
      { type: "Split", pattern: { Regex: "a".repeat(20_000) }, behavior: "Isolated" },
      /a pattern has 20000 UTF-16 units/,
    ],
  ])("%s", (_, step, says) => {
    expect(failure(splits([step]))).toMatch(says);
  });

  test("double a text, and double it again", () => {
    const said = /\(normalizer\): its steps make a text more than 256 times as long$/;
    const doubling = Array.from({ length: 9 }, () => replace("aa"));
    expect(failure(rewrites(doubling))).toMatch(said);
    // What matches between any two characters.
    const between = Array.from({ length: 9 }, () => replace("b", { Regex: "" }));
    expect(failure(rewrites(between))).toMatch(said);
    const bytes = Array.from({ length: 9 }, () => byteLevel);
    expect(failure(splits(bytes))).toMatch(/\(pre_tokenizer\): its steps/);
    expect(() => createTokenizer(rewrites(doubling.slice(2)))).not.toThrow();
  });

  test("put a text or a book in front", () => {
    expect(failure(rewrites([{ type: "Prepend", prepend: "a".repeat(300) }]))).toMatch(/up to 256/);
    const model = { ...json.model, end_of_word_suffix: "a".repeat(300) };
    expect(failure({ ...json, model })).toMatch(/model\.end_of_word_suffix/);
  });

  test("are more than any tokenizer has, in one list or inside each other", () => {
    const many = Array.from({ length: 65 }, () => ({ type: "NFC" }));
    expect(failure(rewrites(many))).toMatch(/\(normalizer\): it has more than 64 steps$/);
    const deep = (part: string, list: string) => ({ ...json, [part]: nested(100_000, list) });
    for (const [part, list] of [
      ["normalizer", "normalizers"],
      ["pre_tokenizer", "pretokenizers"],
      ["post_processor", "processors"],
      ["decoder", "decoders"],
    ] as const) {
      expect(failure(deep(part, list))).toContain(`(${part}): it has more than 64 steps`);
    }
  });

  test("put the text into a template twice, or fail at any text", () => {
    const text = { Sequence: { id: "A", type_id: 0 } };
    const template = (single: unknown) => ({
      ...json,
      post_processor: { type: "TemplateProcessing", single },
    });
    expect(failure(template([text, text]))).toMatch(/has the text 2 times/);
    expect(failure(template(undefined))).toMatch(/^Cannot load tokenizer\.json: /);
    expect(failure(template(["A"]))).toMatch(/^Cannot load tokenizer\.json: /);
    expect(failure({ ...json, post_processor: { type: "RobertaProcessing" } })).toMatch(/^Cannot/);
    expect(() => createTokenizer(template([text]))).not.toThrow();
  });
});

test("added tokens and pieces that are looked for one character at a time have a length in all", () => {
  const content = "x".repeat(2 ** 20 + 1);
  const token = { id: 300, content, special: false };
  expect(failure({ ...json, added_tokens: [token] })).toMatch(/added tokens.* 1048576$/);
  const vocab = [["x".repeat(2 ** 23 + 1), 0]];
  const unigram = { ...metaspaceJson(), added_tokens: [], model: { type: "Unigram", vocab } };
  expect(failure(unigram)).toMatch(/model\.vocab.* over the limit of 8388608$/);
});

test("what published tokenizers do is below every limit", () => {
  for (const known of [json, llamaJson(), metaspaceJson()]) {
    expect(() => createTokenizer(known)).not.toThrow();
  }
});
