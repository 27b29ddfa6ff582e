/** Complete vocabularies that fit on a page, one of each kind. */

function characterOfByte(byte: number): string {
  const printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte !== 173);
  if (printable) return String.fromCharCode(byte);
  const others = Array.from({ length: 256 }, (_, i) => i).filter(
    (i) => !((i >= 33 && i <= 126) || (i >= 161 && i !== 173)),
  );
  return String.fromCharCode(256 + others.indexOf(byte));
}

/** Ids 0-255 are the bytes, 256 is `<s>`, 257 `</s>`, 258 `<tag>`, which is not special. */
export function byteLevelJson() {
  const vocab: Record<string, number> = {};
  for (let byte = 0; byte < 256; byte++) vocab[characterOfByte(byte)] = byte;
  return {
    added_tokens: [
      { id: 256, content: "<s>", special: true },
      { id: 257, content: "</s>", special: true },
      { id: 258, content: "<tag>", special: false },
    ],
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, use_regex: true },
    post_processor: null as unknown,
    decoder: { type: "ByteLevel" } as unknown,
    model: { type: "BPE", vocab, merges: [] as string[] },
  };
}

/** 0 `<unk>`, 1 `<s>`, 2 `</s>`, 3-258 `<0x00>`-`<0xFF>`, then `▁`, `▁a`, `b`, `a`. */
export function llamaJson() {
  const vocab: Record<string, number> = { "<unk>": 0, "<s>": 1, "</s>": 2 };
  for (let byte = 0; byte < 256; byte++) {
    vocab[`<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`] = byte + 3;
  }
  Object.assign(vocab, { "▁": 259, "▁a": 260, b: 261, a: 262 });
  return {
    added_tokens: ["<unk>", "<s>", "</s>"].map((content, id) => ({ id, content, special: true })),
    normalizer: {
      type: "Sequence",
      normalizers: [
        { type: "Prepend", prepend: "▁" },
        { type: "Replace", pattern: { String: " " }, content: "▁" },
      ],
    },
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
        { type: "Strip", content: " ", start: 1, stop: 0 },
      ],
    },
    model: {
      type: "BPE",
      vocab,
      merges: ["▁ a"],
      unk_token: "<unk>",
      fuse_unk: true,
      byte_fallback: true,
    },
  };
}

/** `llamaJson` in the newer form: no normalizer, a pre-tokenizer that marks the first word only. */
export function metaspaceJson() {
  return {
    ...llamaJson(),
    normalizer: null,
    pre_tokenizer: { type: "Metaspace", replacement: "▁", prepend_scheme: "first", split: false },
  };
}

/** The same vocabulary without a mark in front of the text, as Gemma has it. */
export function unprefixedJson() {
  const json = llamaJson();
  return {
    ...json,
    normalizer: { type: "Replace", pattern: { String: " " }, content: "▁" },
    decoder: {
      type: "Sequence",
      decoders: [
        { type: "Replace", pattern: { String: "▁" }, content: " " },
        { type: "ByteFallback" },
        { type: "Fuse" },
      ],
    },
  };
}

/** How published byte-level models cut text before merging. */
export const SPLITS = {
  llama3:
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  qwen2:
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  deepseekV3: [
    "\\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
  ],
} as const;

/** Every byte, and these pieces whole: text cut anywhere else falls into bytes. */
export function splitJson(split: string | readonly string[], pieces: readonly string[]) {
  const json = byteLevelJson();
  const vocab = { ...json.model.vocab };
  for (const [i, piece] of pieces.entries()) {
    const characters = [...new TextEncoder().encode(piece)].map(characterOfByte);
    vocab[characters.join("")] ??= 1000 + i;
  }
  const patterns = typeof split === "string" ? [split] : split;
  return {
    ...json,
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        ...patterns.map((Regex) => ({
          type: "Split",
          pattern: { Regex },
          behavior: "Isolated",
          invert: false,
        })),
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: false },
      ],
    },
    model: { ...json.model, vocab, merges: [], ignore_merges: true },
  };
}
