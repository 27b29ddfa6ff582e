import { expect, test } from "vitest";
import { ChatTemplate } from "../../../src/text/chat_template.ts";
import { readTokenizerConfig } from "../../../src/text/tokenizer_config.ts";

const failure = (source: string) => {
  try {
    new ChatTemplate(source, {});
  } catch (error) {
    return (error as Error).message;
  }
  return undefined;
};

test("a template has a length, and so has white space in it", () => {
  expect(failure("a".repeat(2 ** 18))).toBeUndefined();
  expect(failure("a".repeat(2 ** 18 + 1))).toBe(
    "Cannot load chat_template.jinja: the chat template has 262145 UTF-16 units, over the limit of 262144",
  );
  expect(failure(`a${" ".repeat(1024)}b`)).toBeUndefined();
  expect(failure(`a${" \n".repeat(513)}b`)).toMatch(/1026 characters of white space in a row/);
});

test("a template that nests too deep for the parser is told so", () => {
  const deep = `{{ ${"(".repeat(20_000)}1${")".repeat(20_000)} }}`;
  expect(failure(deep)).toBe(
    "Cannot load chat_template.jinja: the chat template does not parse (it nests too deep)",
  );
  expect(failure("{% if true %}".repeat(10_000))).toMatch(/nests too deep/);
});

test("a file has so many templates at most", () => {
  const templates = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`t${i}`, "x"]));
  expect(readTokenizerConfig({ chat_template: templates(64) }).chatTemplate).toHaveLength(64);
  expect(() => readTokenizerConfig({ chat_template: templates(65) })).toThrow(
    /\(chat_template\): it has 65 chat templates, over the limit of 64$/,
  );
});
