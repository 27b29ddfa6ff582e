/**
 * The plainest tokenizer.json: a token for every byte, ids 0 to 255, and two special tokens.
 *
 * @module
 */

export const BOS_TOKEN_ID = 256;
export const EOS_TOKEN_ID = 257;
const SPECIAL_TOKENS = ["<|begin|>", "<|end|>"];

/** How byte-level vocabularies spell each byte: printable ones as they are, others from 256 on. */
export function byteTokens(): string[] {
  let moved = 0x100;
  return Array.from({ length: 256 }, (_, byte) => {
    const printable =
      (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte !== 0xad && byte <= 0xff);
    return String.fromCodePoint(printable ? byte : moved++);
  });
}

export function byteTokenizer(): unknown {
  const byteLevel = { type: "ByteLevel", add_prefix_space: false, use_regex: false };
  return {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: SPECIAL_TOKENS.map((content, i) => ({
      id: BOS_TOKEN_ID + i,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: true,
    })),
    normalizer: null,
    pre_tokenizer: byteLevel,
    post_processor: null,
    decoder: byteLevel,
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab: Object.fromEntries(byteTokens().map((token, id) => [token, id])),
      merges: [],
    },
  };
}
