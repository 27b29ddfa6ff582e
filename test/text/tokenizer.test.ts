import { describe, expect, test } from "vitest";
import { createTokenizer, type Tokenizer } from "../../src/text/tokenizer.ts";
import { hasSharedData, sharedJson, skipNote } from "./shared_data.ts";
import { byteLevelJson, llamaJson } from "./small_tokenizers.ts";

interface Case {
  readonly text: string;
  readonly ids: number[];
}

function sharedTokenizer(folder: string, withConfig: boolean): Tokenizer {
  const config = withConfig ? sharedJson(`${folder}/tokenizer_config.json`) : undefined;
  return createTokenizer(sharedJson(`${folder}/tokenizer.json`), config);
}

describe.skipIf(!hasSharedData)(`Tokenizer, published vocabularies${skipNote}`, () => {
  test.each(["gpt-2", "deepseek-llm"])("Tokenizer encodes and decodes all cases of %s", (name) => {
    const tokenizer = sharedTokenizer(`tokenizers/${name}`, false);
    const cases = sharedJson<Case[]>(`tokenizers/${name}/cases.json`);
    expect(cases).toHaveLength(46);
    for (const { text, ids } of cases) {
      expect(tokenizer.encode(text), JSON.stringify(text)).toEqual(ids);
      expect(tokenizer.decode(ids)).toBe(text);
    }
  });

  test("Tokenizer agrees with all golden cases of the tiny model", () => {
    const tokenizer = sharedTokenizer("models/tiny-deepseek-v3-fp8", true);
    const { cases } = sharedJson<{ cases: Case[] }>("golden/tokenizer.json");
    expect(cases.length).toBeGreaterThan(0);
    for (const { text, ids } of cases) {
      expect(tokenizer.encode(text), JSON.stringify(text)).toEqual(ids);
      expect(tokenizer.decode(ids)).toBe(text);
    }
  });

  test("encodePrompt puts the tiny model's BOS in front, once", () => {
    const tokenizer = sharedTokenizer("models/tiny-deepseek-v3-fp8", true);
    const [bos, eos] = [tokenizer.bosTokenId, tokenizer.eosTokenId];
    expect([bos, eos, tokenizer.addsBos]).toEqual([0, 1, true]);
    const plain = tokenizer.encode("hello");
    expect(tokenizer.encodePrompt("hello")).toEqual([0, ...plain]);
    expect(tokenizer.encodePrompt("<｜begin▁of▁sentence｜>hello")).toEqual([0, ...plain]);
    expect(tokenizer.encodePrompt("")).toEqual([0]);
  });

  test("decode leaves out special tokens but keeps tokens that are merely added", () => {
    const tokenizer = sharedTokenizer("models/tiny-deepseek-v3-fp8", true);
    const text = "<｜begin▁of▁sentence｜><｜User｜>hi<think><｜end▁of▁sentence｜>";
    const ids = tokenizer.encode(text);
    expect(tokenizer.decode(ids)).toBe(text);
    expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe("<｜User｜>hi<think>");
  });

  test("encode survives a word of 200,000 letters", () => {
    const tokenizer = sharedTokenizer("models/tiny-deepseek-v3-fp8", true);
    const text = "abcdefghij".repeat(20_000);
    expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
  });
});

describe("Tokenizer, add_bos_token", () => {
  const template = {
    type: "TemplateProcessing",
    single: [
      { SpecialToken: { id: "<s>", type_id: 0 } },
      { Sequence: { id: "A", type_id: 0 } },
      { SpecialToken: { id: "</s>", type_id: 0 } },
    ],
    pair: [],
    special_tokens: {},
  };
  const roles = { bos_token: "<s>", eos_token: { content: "</s>" } };
  const cases = [
    { addBosToken: true, postProcessor: null, adds: true },
    { addBosToken: true, postProcessor: template, adds: true },
    { addBosToken: false, postProcessor: null, adds: false },
    { addBosToken: false, postProcessor: template, adds: false },
    { addBosToken: undefined, postProcessor: null, adds: false },
    { addBosToken: undefined, postProcessor: template, adds: true },
    { addBosToken: null, postProcessor: template, adds: true },
  ];
  test.each(cases)("encodePrompt adds BOS exactly when asked: %o", (given) => {
    const tokenizer = createTokenizer(
      { ...byteLevelJson(), post_processor: given.postProcessor },
      { ...roles, add_bos_token: given.addBosToken },
    );
    expect(tokenizer.encode("a")).toEqual([97]);
    expect(tokenizer.encodePrompt("a")).toEqual(given.adds ? [256, 97] : [97]);
    expect(tokenizer.addsBos).toBe(given.adds);
  });

  test("encodePrompt adds nothing without a bos_token, whatever the template", () => {
    const tokenizer = createTokenizer({ ...byteLevelJson(), post_processor: template });
    expect(tokenizer.encodePrompt("a")).toEqual([97]);
    expect([tokenizer.bosTokenId, tokenizer.eosTokenId]).toEqual([undefined, undefined]);
  });
});

describe("Tokenizer, SentencePiece vocabulary", () => {
  test("encode falls back to bytes and decode drops the space it has put in front", () => {
    const tokenizer = createTokenizer(llamaJson(), { bos_token: "<s>", add_bos_token: true });
    const ids = tokenizer.encodePrompt("ab é");
    expect(ids).toEqual([1, 260, 261, 259, 0xc3 + 3, 0xa9 + 3]);
    expect(tokenizer.decode(ids.slice(1))).toBe("ab é");
    expect(tokenizer.decode(ids, { skipSpecialTokens: true })).toBe("ab é");
    expect(tokenizer.decode(ids)).toBe("<s> ab é");
  });

  test("ignore_merges takes a whole word that merging would not reach", () => {
    const json = byteLevelJson();
    const model = { ...json.model, vocab: { ...json.model.vocab, xyz: 300 } };
    const merged = createTokenizer({ ...json, model });
    expect(merged.encode("xyz")).toEqual([120, 121, 122]);
    const whole = createTokenizer({ ...json, model: { ...model, ignore_merges: true } });
    expect(whole.encode("xyz")).toEqual([300]);
  });
});

describe("createTokenizer, tokens of the configuration", () => {
  test("added tokens that only the configuration knows are recognised", () => {
    const tokenizer = createTokenizer(byteLevelJson(), {
      added_tokens_decoder: { "400": { content: "<call>", special: false } },
    });
    expect(tokenizer.encode("a<call>")).toEqual([97, 400]);
    expect(tokenizer.vocabulary.id("<call>")).toBe(400);
    expect(tokenizer.vocabulary.isSpecial(400)).toBe(false);
  });

  test("a token with a role is special even where it is an ordinary piece", () => {
    const tokenizer = createTokenizer(byteLevelJson(), { eos_token: "~" });
    expect(tokenizer.eosTokenId).toBe(126);
    expect(tokenizer.decode([97, 126], { skipSpecialTokens: true })).toBe("a");
  });
});

describe("createTokenizer, malformed files", () => {
  const json = byteLevelJson();
  const withModel = (fields: object) => ({ ...json, model: { ...json.model, ...fields } });
  test.each<[string, unknown, RegExp]>([
    ["a list", [], /tokenizer\.json: it is not a JSON object/],
    ["no model", { added_tokens: [] }, /tokenizer\.json \(model\)/],
    ["no vocabulary", withModel({ vocab: undefined }), /tokenizer\.json \(model\.vocab\)/],
    ["text for an id", withModel({ vocab: { a: "1" } }), /piece "a" has id "1"/],
    ["a negative id", withModel({ vocab: { a: -1 } }), /piece "a" has id -1/],
    ["an absurd id", withModel({ vocab: { a: 1e12 } }), /piece "a" has id 1000000000000/],
    ["an id twice", withModel({ vocab: { a: 1, b: 1 } }), /"a" and "b" share id 1/],
    ["an id far off", withModel({ vocab: { a: 2 ** 24 - 1 } }), /id 16777215 is too large/],
    ["no merges", withModel({ merges: undefined }), /tokenizer\.json \(model\.merges\)/],
    ["an unknown model", withModel({ type: "Oracle", vocab: [] }), /tokenizer\.json/],
    ["added tokens of no list", { ...json, added_tokens: {} }, /added_tokens/],
    [
      "an added token without text",
      { ...json, added_tokens: [{ id: 1 }] },
      /token 1 has no content/,
    ],
    ["an unknown splitter", { ...json, pre_tokenizer: { type: "Oracle" } }, /Oracle/],
  ])("a tokenizer.json with %s is refused and named", (_, tokenizerJson, message) => {
    expect(() => createTokenizer(tokenizerJson)).toThrow(message);
    expect(() => createTokenizer(tokenizerJson)).toThrow(
      expect.objectContaining({ code: "invalid_checkpoint", file: "tokenizer.json" }),
    );
  });

  test.each<[string, unknown, RegExp]>([
    ["a list", [], /tokenizer_config\.json: it is not a JSON object/],
    ["an odd add_bos_token", { add_bos_token: "yes" }, /\(add_bos_token\)/],
    ["an odd token", { bos_token: 3 }, /\(bos_token\)/],
    ["an unknown BOS", { bos_token: "<bos>" }, /\(bos_token\): "<bos>" is not in the vocabulary/],
    ["add_bos_token without a BOS", { add_bos_token: true }, /there is no bos_token/],
    ["an id taken", { added_tokens_decoder: { 256: { content: "x" } } }, /contradicts "<s>"/],
  ])("a tokenizer_config.json with %s is refused and named", (_, config, message) => {
    expect(() => createTokenizer(json, config)).toThrow(message);
    expect(() => createTokenizer(json, config)).toThrow(
      expect.objectContaining({ code: "invalid_checkpoint", file: "tokenizer_config.json" }),
    );
  });

  test.each([null, { type: "WordPiece" }, { type: "CTC" }])(
    "a vocabulary that is neither byte-level nor SentencePiece's is refused: %o",
    (decoder) => {
      expect(() => createTokenizer({ ...json, decoder })).toThrow(
        expect.objectContaining({ code: "unsupported" }),
      );
    },
  );

  test("encode refuses text that the vocabulary cannot express", () => {
    const { vocab } = json.model;
    const tokenizer = createTokenizer(withModel({ vocab: { a: vocab.a }, merges: [] }));
    expect(tokenizer.encode("a")).toEqual([97]);
    expect(() => tokenizer.encode("ab")).toThrow(/no token for byte 0x62/);
  });
});
