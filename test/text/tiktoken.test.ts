import { describe, expect, test } from "vitest";
import { createTiktokenTokenizer } from "../../src/text/tiktoken.ts";
import type { Tokenizer } from "../../src/text/tokenizer.ts";

const loaded = new Map<string, Promise<Tokenizer>>();

/** One tokenizer per encoding for the whole file: building one takes a second. */
function tokenizerOf(name: string): Promise<Tokenizer> {
  const tokenizer = loaded.get(name) ?? createTiktokenTokenizer(name);
  loaded.set(name, tokenizer);
  return tokenizer;
}

const TEXTS = [
  "",
  "hello world",
  "I'll   see\n\n you at 10:30, 12345678!",
  "👩‍👩‍👧 한국어 日本語 é \ufeff ü",
  "\t\r\n  trailing  ",
];

describe("createTiktokenTokenizer", () => {
  test.each<[string, string, number[]]>([
    ["cl100k_base", "hello world", [15339, 1917]],
    ["cl100k_base", "tiktoken is great!", [83, 1609, 5963, 374, 2294, 0]],
    ["o200k_base", "hello world", [24912, 2375]],
    ["o200k_harmony", "hello world", [24912, 2375]],
  ])("%s encodes %j as published", async (name, text, ids) => {
    const tokenizer = await tokenizerOf(name);
    expect(tokenizer.encode(text)).toEqual(ids);
    expect(tokenizer.encodePrompt(text)).toEqual(ids);
  });

  test.each(["cl100k_base", "o200k_base", "o200k_harmony"])(
    "%s decodes what it encodes",
    async (name) => {
      const tokenizer = await tokenizerOf(name);
      for (const text of TEXTS) expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    },
  );

  test("special tokens are found anywhere in the text", async () => {
    const tokenizer = await tokenizerOf("o200k_harmony");
    const text = "<|start|>user<|message|>hello world<|end|><|start|>assistant";
    expect(tokenizer.encode(text)).toEqual([
      200006, 1428, 200008, 24912, 2375, 200007, 200006, 173781,
    ]);
    expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    const ids = tokenizer.encode("hello world<|return|>");
    expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe("hello world");
  });

  test("BOS and EOS come from the configuration", async () => {
    const plain = await tokenizerOf("o200k_harmony");
    expect([plain.bosTokenId, plain.eosTokenId]).toEqual([undefined, 199999]);
    const config = { bos_token: "<|startoftext|>", eos_token: "<|return|>" };
    const named = await createTiktokenTokenizer("o200k_harmony", config);
    expect([named.bosTokenId, named.eosTokenId, named.addsBos]).toEqual([199998, 200002, false]);
    const adding = await createTiktokenTokenizer("o200k_harmony", {
      ...config,
      add_bos_token: true,
    });
    expect(adding.encodePrompt("hello world")).toEqual([199998, 24912, 2375]);
  });

  test("U+FEFF is no white space, so that it is cut off with what stands before a word", async () => {
    const tokenizer = await tokenizerOf("o200k_harmony");
    // " \ufeff" is one run of neither letters nor digits; " x" follows.
    const apart = [...tokenizer.encode(" \ufeff"), ...tokenizer.encode(" x")];
    expect(tokenizer.encode(" \ufeff x")).toEqual(apart);
    expect(tokenizer.decode(apart)).toBe(" \ufeff x");
  });

  test("an endless word is encoded in bounded time and comes back whole", async () => {
    const tokenizer = await tokenizerOf("cl100k_base");
    const text = `${"x".repeat(24_999)}😀${"yz".repeat(1000)}`;
    expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
  });

  test("an unknown encoding or token is refused and named", async () => {
    await expect(createTiktokenTokenizer("p50k")).rejects.toThrow(
      'Cannot use encoding "p50k": known are cl100k_base, o200k_base, o200k_harmony',
    );
    await expect(
      createTiktokenTokenizer("cl100k_base", { eos_token: "<|return|>" }),
    ).rejects.toThrow('"<|return|>" is not in the vocabulary of cl100k_base');
  });
});
