import { describe, expect, test } from "vitest";
import { Detokenizer } from "../../src/text/detokenizer.ts";
import { createTokenizer } from "../../src/text/tokenizer.ts";
import type { Vocabulary } from "../../src/text/vocabulary.ts";
import { byteLevelJson, llamaJson } from "./small_tokenizers.ts";

const vocabulary = createTokenizer(byteLevelJson()).vocabulary;
const [BOS, TAG, HOLE] = [256, 258, 5000];

function bytesOf(text: string): number[] {
  return [...new TextEncoder().encode(text)];
}

/** A small generator of numbers in [0, limit), so that a failing seed can be repeated. */
function randomNumbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** Ids that are mostly characters cut into bytes, sometimes broken, with tokens in between. */
function randomIds(random: (limit: number) => number, length: number): number[] {
  const texts = ["a", " ", "é", "한", "👩‍👩‍👧", "\ufeff", "\n", "🇸🇪"];
  return Array.from({ length }, () => {
    switch (random(8)) {
      case 0:
        return [random(256)];
      case 1:
        return [[BOS, TAG, 257, HOLE][random(4)]!];
      case 2:
        return bytesOf(texts[random(texts.length)]!).slice(random(3));
      default:
        return bytesOf(texts[random(texts.length)]!);
    }
  }).flat();
}

/** The definition: bytes between special tokens are decoded as one. */
function decodeAtOnce(ids: readonly number[], words: Vocabulary, skip: boolean): string {
  let text = "";
  let bytes: number[] = [];
  const decode = () => {
    text += new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
    bytes = [];
  };
  for (const id of ids) {
    if (words.isSpecial(id)) {
      decode();
      if (skip) continue;
    }
    bytes.push(...words.bytes(id));
  }
  decode();
  return text;
}

describe("Detokenizer", () => {
  test.each([1, 2, 3, 4, 5])("pushes and flush add up to decoding at once (seed %i)", (seed) => {
    const random = randomNumbers(seed);
    for (let round = 0; round < 100; round++) {
      const ids = randomIds(random, 1 + random(12));
      for (const skipSpecialTokens of [false, true]) {
        const detokenizer = new Detokenizer(vocabulary, { skipSpecialTokens });
        let text = "";
        for (let i = 0; i < ids.length; ) {
          const count = 1 + random(3);
          text += detokenizer.push(ids.slice(i, i + count));
          i += count;
        }
        text += detokenizer.flush();
        expect(text).toBe(decodeAtOnce(ids, vocabulary, skipSpecialTokens));
      }
    }
  });

  test("push emits each character once its last byte is there, and never a half", () => {
    const detokenizer = new Detokenizer(vocabulary);
    const pushes = bytesOf("a👩‍👧é").map((id) => detokenizer.push([id]));
    expect(pushes.filter((text) => text !== "")).toEqual(["a", "👩", "\u200d", "👧", "é"]);
    expect(detokenizer.flush()).toBe("");
  });

  test("push writes U+FFFD only when the bytes can no longer become a character", () => {
    const detokenizer = new Detokenizer(vocabulary);
    expect(detokenizer.push([0xf0, 0x9f])).toBe("");
    expect(detokenizer.push([0x41])).toBe("\ufffdA");
    expect(detokenizer.push([0xff])).toBe("\ufffd");
    expect(detokenizer.push([0xe2, 0x82])).toBe("");
    expect(detokenizer.flush()).toBe("\ufffd");
  });

  test("push ends an unfinished character at a special token, skipped or not", () => {
    const shown = new Detokenizer(vocabulary);
    expect(shown.push([0xc3, BOS, 0xa9])).toBe("\ufffd<s>\ufffd");
    const skipped = new Detokenizer(vocabulary, { skipSpecialTokens: true });
    expect(skipped.push([0xc3, BOS, 0xa9, TAG])).toBe("\ufffd\ufffd<tag>");
  });

  test("push puts no space between special tokens that follow each other", () => {
    const shown = new Detokenizer(vocabulary);
    expect(shown.push([BOS]) + shown.push([BOS, 0x41, BOS, TAG])).toBe("<s><s>A<s><tag>");
    const skipped = new Detokenizer(vocabulary, { skipSpecialTokens: true });
    expect(skipped.push([BOS, BOS, 0x41, BOS])).toBe("A");
  });

  test("push shows the special tokens it is told to, skipped or not", () => {
    const options = { shownSpecialTokens: ["</s>", "<nowhere>"] };
    const skipped = new Detokenizer(vocabulary, { ...options, skipSpecialTokens: true });
    expect(skipped.push([BOS, 257, 257, 0x41, BOS, 257])).toBe("</s></s>A</s>");
    const shown = new Detokenizer(vocabulary, options);
    expect(shown.push([BOS, 257, BOS])).toBe("<s></s><s>");
  });

  test("push keeps a byte order mark and passes over ids without a token", () => {
    const detokenizer = new Detokenizer(vocabulary);
    expect(detokenizer.push([...bytesOf("\ufeffa"), HOLE, -1, ...bytesOf("\ufeff")])).toBe(
      "\ufeffa\ufeff",
    );
  });

  test("detokenizers that take turns do not mix their bytes", () => {
    const texts = ["한국어 👩‍👩‍👧", "éèê 🇸🇪 ü", "日本語 a"];
    const running = texts.map((text) => ({
      ids: bytesOf(text),
      detokenizer: new Detokenizer(vocabulary),
      text: "",
    }));
    for (let i = 0; i < 40; i++) {
      for (const one of running) one.text += one.detokenizer.push(one.ids.slice(i, i + 1));
    }
    expect(running.map((one) => one.text + one.detokenizer.flush())).toEqual(texts);
  });

  test("a completion keeps its first space; a whole text drops it when asked", () => {
    const words = createTokenizer(llamaJson()).vocabulary;
    expect(new Detokenizer(words).push([260, 261])).toBe(" ab");
    const whole = new Detokenizer(words, { stripLeadingSpace: true });
    expect([whole.push([259]), whole.push([260, 261])]).toEqual(["", " ab"]);
  });
});

describe("Vocabulary", () => {
  test("bytes gives each byte of a byte-level vocabulary and nothing for a hole", () => {
    for (let byte = 0; byte < 256; byte++) expect([...vocabulary.bytes(byte)]).toEqual([byte]);
    for (const id of [HOLE, -1, 0.5, Number.NaN]) expect(vocabulary.bytes(id)).toHaveLength(0);
    expect(vocabulary.size).toBe(259);
  });

  test("bytes of an added token are its text, not byte-level characters", () => {
    const json = byteLevelJson();
    json.added_tokens.push({ id: 300, content: "ü", special: false });
    const words = createTokenizer(json).vocabulary;
    expect([...words.bytes(300)]).toEqual([0xc3, 0xbc]);
    expect(words.text(300)).toBe("ü");
    expect(words.bytes(280)).toHaveLength(0);
    expect(words.size).toBe(301);
  });

  test("bytes of a SentencePiece vocabulary: spaces and single bytes", () => {
    const words = createTokenizer(llamaJson()).vocabulary;
    expect([...words.bytes(3 + 0xff)]).toEqual([0xff]);
    expect([...words.bytes(260)]).toEqual([0x20, 0x61]);
    expect(words.text(3 + 0xff)).toBe("\ufffd");
  });

  test("id and isSpecial know added tokens", () => {
    expect(vocabulary.id("<tag>")).toBe(TAG);
    expect(vocabulary.id("a")).toBeUndefined();
    expect([BOS, TAG, 97].map((id) => vocabulary.isSpecial(id))).toEqual([true, false, false]);
  });
});
