/** One small tokenizer.json of each published shape, with ids that were worked out by hand. */

import { describe, expect, test } from "vitest";
import { readClassicTokenizer } from "../../src/text/classic_vocabulary.ts";
import { Detokenizer } from "../../src/text/detokenizer.ts";
import { createTokenizer, type Tokenizer } from "../../src/text/tokenizer.ts";
import { hasSharedData, sharedJson, skipNote } from "./shared_data.ts";
import {
  byteLevelJson,
  llamaJson,
  metaspaceJson,
  SPLITS,
  splitJson,
  unprefixedJson,
} from "./small_tokenizers.ts";

const ROLES = { bos_token: "<s>", eos_token: "</s>" };

/** Ids of bytes in the SentencePiece vocabularies. */
function bytes(...values: number[]): number[] {
  return values.map((value) => value + 3);
}

describe("createTokenizer, SentencePiece shapes", () => {
  const shapes = {
    "a mark before every section": llamaJson(),
    "a mark before the first word": metaspaceJson(),
    "no mark": unprefixedJson(),
  };
  // 1 <s>, 259 ▁, 260 ▁a, 261 b, 262 a.
  test.each<[keyof typeof shapes, string, number[], string]>([
    ["a mark before every section", "ab", [260, 261], "ab"],
    ["a mark before every section", " ab", [259, 260, 261], " ab"],
    ["a mark before every section", "a b", [260, 259, 261], "a b"],
    ["a mark before every section", "<s>ab", [1, 260, 261], "<s> ab"],
    ["a mark before every section", "é", [259, ...bytes(0xc3, 0xa9)], "é"],
    ["a mark before every section", "a\n", [260, ...bytes(10)], "a\n"],
    ["a mark before every section", "", [], ""],
    ["a mark before the first word", "ab", [260, 261], "ab"],
    ["a mark before the first word", "a<s>a", [260, 1, 262], "a<s>a"],
    ["a mark before the first word", "<s>a", [1, 262], "<s>a"],
    ["a mark before the first word", "<s> a", [1, 260], "<s> a"],
    ["a mark before the first word", "😀", [259, ...bytes(0xf0, 0x9f, 0x98, 0x80)], "😀"],
    ["no mark", "ab", [262, 261], "ab"],
    ["no mark", " a", [260], " a"],
    ["no mark", "a<s> a", [262, 1, 260], "a<s> a"],
    ["no mark", "", [], ""],
  ])("%s: %j has the ids of SentencePiece", (shape, text, ids, decoded) => {
    const tokenizer = createTokenizer(shapes[shape], ROLES);
    expect(tokenizer.encode(text)).toEqual(ids);
    expect(tokenizer.decode(ids)).toBe(decoded);
  });

  test("bytes that no character is made of become U+FFFD, each run once it is certain", () => {
    const { vocabulary } = createTokenizer(llamaJson(), ROLES);
    const detokenizer = new Detokenizer(vocabulary);
    expect(detokenizer.push(bytes(0xe2, 0x96))).toBe("");
    expect(detokenizer.push([262])).toBe("\ufffda");
    expect(detokenizer.push(bytes(0xf0))).toBe("");
    expect(detokenizer.flush()).toBe("\ufffd");
  });
});

describe("createTokenizer, byte-level cuts", () => {
  const cases: [keyof typeof SPLITS, string[]][] = [
    ["llama3", ["I", "'LL", " see", " ", "123", "45", "!?\n", " ", " x", "\n\n", "天気"]],
    ["llama3", [".foo", " ", " bar", "   ", " 한국어", "9", "th", " ..."]],
    ["qwen2", ["I", "'LL", " see", " ", "1", "2", "3", "!?\n", " ", " x", "\n\n", "天気"]],
    ["qwen2", [".foo", " ", " bar", "   ", " 한국어", "9", "th", " ..."]],
    ["deepseekV3", ["I", "'LL", " see", " ", "123", "45", "!?\n", " ", " x", "\n\n", "天気", "ab"]],
    ["deepseekV3", [".foo", " ", "ひらがな", " ée\u0301", "=", " $=\n", "   "]],
  ];
  test.each(cases)("%s cuts where the model was trained to: %j", (name, pieces) => {
    const text = pieces.join("");
    const tokenizer = createTokenizer(splitJson(SPLITS[name], [...pieces, text]), ROLES);
    const found = tokenizer.encode(text).map((id) => tokenizer.vocabulary.text(id));
    expect(found).toEqual(pieces);
  });

  const spaces: [string, string | undefined, string[]][] = [
    ["GPT-2", undefined, ["a", " \ufeff", "b"]],
    ["GPT-2", undefined, ["a", "\u0085", " b"]],
    ["Llama 3", SPLITS.llama3, ["a", " \ufeff!", " b"]],
    ["Llama 3", SPLITS.llama3, ["a", "\u0085", " \u180e"]],
    ["Llama 3", SPLITS.llama3, ["a", "\u2028\u00a0", "\u3000b"]],
  ];
  test.each(spaces)("%s takes for white space what Unicode does: %#", (_, split, pieces) => {
    const json = splitJson(split ?? "", pieces);
    const whole = { ...json, pre_tokenizer: byteLevelJson().pre_tokenizer };
    const tokenizer = createTokenizer(split === undefined ? whole : json);
    const found = tokenizer.encode(pieces.join("")).map((id) => tokenizer.vocabulary.text(id));
    expect(found).toEqual(pieces);
  });

  test("Qwen's normalizer composes, the others leave text as it is", () => {
    const json = splitJson(SPLITS.qwen2, ["é"]);
    expect(createTokenizer(json).encode("e\u0301")).toEqual([0x65, 0xcc, 0x81]);
    const composing = createTokenizer({ ...json, normalizer: { type: "NFC" } });
    expect(composing.encode("e\u0301")).toEqual([1000]);
  });

  test("a template within a sequence of post-processors adds BOS to raw text only", () => {
    const template = {
      type: "TemplateProcessing",
      single: [{ SpecialToken: { id: "<s>", type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
      pair: [],
      special_tokens: { "<s>": { id: "<s>", ids: [256], tokens: ["<s>"] } },
    };
    const post_processor = {
      type: "Sequence",
      processors: [{ type: "ByteLevel", trim_offsets: false }, template],
    };
    const tokenizer = createTokenizer({ ...splitJson(SPLITS.llama3, []), post_processor }, ROLES);
    expect(tokenizer.addsBos).toBe(true);
    expect(tokenizer.encodePrompt("a")).toEqual([256, 97]);
    // A chat template writes its own, and so may a prompt.
    expect(tokenizer.encode("<s>a")).toEqual([256, 97]);
    expect(tokenizer.encodePrompt("<s>a")).toEqual([256, 97]);
  });
});

describe.skipIf(!hasSharedData)(`readClassicTokenizer${skipNote}`, () => {
  test("GPT-2's two files give all ids of its cases", () => {
    interface Published {
      readonly model: { readonly vocab: Record<string, number>; readonly merges: string[] };
    }
    const { model } = sharedJson<Published>("tokenizers/gpt-2/tokenizer.json");
    const merges = model.merges.map((merge) => (Array.isArray(merge) ? merge.join(" ") : merge));
    const { tokenizerJson, tokenizerConfig } = readClassicTokenizer({
      vocab: model.vocab,
      merges: `#version: 0.2\r\n${merges.join("\r\n")}\r\n`,
      addedTokens: { "<|endoftext|>": 50256 },
      tokenizerConfig: { tokenizer_class: "GPT2Tokenizer" },
    });
    const tokenizer = createTokenizer(tokenizerJson, tokenizerConfig);
    interface Case {
      readonly text: string;
      readonly ids: number[];
    }
    const cases = sharedJson<Case[]>("tokenizers/gpt-2/cases.json");
    expect(cases).toHaveLength(46);
    for (const { text, ids } of cases) expect(tokenizer.encode(text)).toEqual(ids);
  });
});

/** Ranges from which random text is drawn, the awkward ones among them. */
const RANGES: readonly (readonly [number, number])[] = [
  [0x20, 0x7e],
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0x24f],
  [0x300, 0x36f],
  [0x400, 0x4ff],
  [0x590, 0x6ff],
  [0xe00, 0xe7f],
  [0x200b, 0x2060],
  [0x3040, 0x30ff],
  [0x4e00, 0x9fa5],
  [0xac00, 0xd7a3],
  [0xfe00, 0xfe0f],
  [0xfeff, 0xfeff],
  [0xfffd, 0xfffd],
  [0x1f300, 0x1faff],
  [0xe0000, 0xe007f],
];

function randomText(seed: number): string {
  let state = seed;
  const next = (limit: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
  const length = 1 + next(40);
  return Array.from({ length }, () => {
    const [first, last] = RANGES[next(RANGES.length)]!;
    return String.fromCodePoint(first + next(last - first + 1));
  }).join("");
}

function streamed(tokenizer: Tokenizer, ids: readonly number[], strips: boolean): string {
  const detokenizer = new Detokenizer(tokenizer.vocabulary, { stripLeadingSpace: strips });
  return ids.map((id) => detokenizer.push([id])).join("") + detokenizer.flush();
}

describe("round trips over random Unicode", () => {
  const all: [string, object, boolean][] = [
    ["GPT-2", byteLevelJson(), false],
    ["Llama 3", splitJson(SPLITS.llama3, []), false],
    ["Qwen 2", splitJson(SPLITS.qwen2, []), false],
    ["DeepSeek V3", splitJson(SPLITS.deepseekV3, []), false],
    ["Llama 2", llamaJson(), true],
    ["Mistral", metaspaceJson(), true],
    ["Gemma", unprefixedJson(), false],
  ];
  test.each(all)("%s: whole and token by token", (name, json, strips) => {
    const tokenizer = createTokenizer(json, ROLES);
    for (let seed = 1; seed <= 300; seed++) {
      // This shape gives the first word no mark when it has a space of its own.
      const text = name === "Mistral" ? `a${randomText(seed)}` : randomText(seed);
      const ids = tokenizer.encode(text);
      expect(tokenizer.decode(ids), `seed ${seed}`).toBe(text);
      expect(streamed(tokenizer, ids, strips), `seed ${seed}`).toBe(text);
    }
  });
});
