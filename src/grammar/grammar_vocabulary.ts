/**
 * A vocabulary as token masks need it: its text tokens as tries, and the tokens that end a text.
 *
 * One for a model, shared by all grammars.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import type { Horizons } from "./frames.ts";
import { type TokenBytes, TokenTrie } from "./token_trie.ts";

/** What is asked of a tokenizer's vocabulary. */
export interface TokenSource {
  /** Largest id + 1. */
  readonly size: number;
  /** Bytes of a token; none for an id without a token. */
  bytes(id: number): Uint8Array;
  /** Whether it is a mark for the model, not text. Such a token never stands inside a grammar. */
  isSpecial(id: number): boolean;
}

export interface GrammarVocabularyOptions {
  /** Tokens that may come exactly where a text may end. They stand for no text. */
  readonly endTokens: readonly number[];
  /** Tokens that the model gives logits for, if more than the vocabulary has. */
  readonly size?: number | undefined;
  /** Longest tokens, in bytes, of `short`. Default 16. */
  readonly horizon?: number | undefined;
}

export class GrammarVocabulary {
  /** Tokens that a mask speaks of. */
  readonly size: number;
  /** 32-bit words of a mask. */
  readonly words: number;
  readonly endTokens: readonly number[];
  /** Bytes of the longest tokens of `short` and of `whole`. */
  readonly horizons: Horizons;
  /** All text tokens. */
  readonly whole: TokenTrie;
  /** Those of at most `horizon` bytes. */
  readonly short: TokenTrie;
  /** The others. */
  readonly long: TokenTrie;
  readonly #source: TokenSource;
  readonly #ends: ReadonlySet<number>;

  constructor(source: TokenSource, options: GrammarVocabularyOptions) {
    const { endTokens, size = source.size, horizon = 16 } = options;
    this.size = Math.max(size, source.size);
    this.words = Math.ceil(this.size / 32);
    for (const id of endTokens) {
      if (!Number.isInteger(id) || id < 0 || id >= this.size) {
        throw new InvalidRequestError(`Cannot end a text with token ${id}: there are ${this.size}`);
      }
    }
    this.endTokens = endTokens;
    this.#source = source;
    this.#ends = new Set(endTokens);
    const tokens: TokenBytes[] = [];
    for (let id = 0; id < source.size; id++) {
      const bytes = this.textBytes(id);
      if (bytes !== undefined) tokens.push([id, bytes]);
    }
    this.whole = TokenTrie.of(tokens);
    this.short = this.whole.ofLengths(1, horizon);
    this.long = this.whole.ofLengths(horizon + 1, this.whole.maxDepth);
    this.horizons = { near: this.short.maxDepth, far: this.whole.maxDepth };
  }

  isEnd(id: number): boolean {
    return this.#ends.has(id);
  }

  /** Bytes of a text token; undefined for any other id. */
  textBytes(id: number): Uint8Array | undefined {
    if (this.isEnd(id) || this.#source.isSpecial(id)) return undefined;
    const bytes = this.#source.bytes(id);
    return bytes.length === 0 ? undefined : bytes;
  }
}
