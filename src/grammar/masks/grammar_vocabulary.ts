/**
 * A vocabulary as token masks need it: its tokens as tries, and the tokens that end a text.
 *
 * One for a model, shared by all grammars.
 *
 * @module
 */

import { InvalidRequestError } from "../../errors.ts";
import type { Horizons } from "../automaton/frames.ts";
import { MARK_BYTE, Marks, markBytes } from "../constraints/marks.ts";
import { isSign } from "../distinct/distinct_bytes.ts";
import { type TokenBytes, TokenTrie } from "./token_trie.ts";

/** What is asked of a tokenizer's vocabulary. */
export interface TokenSource {
  /** Largest id + 1. */
  readonly size: number;
  /** Bytes of a token; none for an id without a token. */
  bytes(id: number): Uint8Array;
  /** Whether it is a mark for the model, not text. It stands only where a grammar names it. */
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
  /** The special tokens that a grammar may name. */
  readonly marks: Marks;
  /** All tokens but those that end a text. */
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
    const special = new Map<string, number>();
    const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
    for (let id = 0; id < source.size; id++) {
      const bytes = this.bytes(id);
      if (bytes === undefined) continue;
      tokens.push([id, bytes]);
      if (source.isSpecial(id)) special.set(decoder.decode(source.bytes(id)), id);
    }
    this.marks = new Marks(special);
    this.whole = TokenTrie.of(tokens);
    this.short = this.whole.ofLengths(1, horizon);
    this.long = this.whole.ofLengths(horizon + 1, this.whole.maxDepth);
    // Now, as no mask is to wait for it.
    for (const trie of [this.whole, this.short, this.long]) trie.survey();
    this.horizons = { near: this.short.maxDepth, far: this.whole.maxDepth };
  }

  isEnd(id: number): boolean {
    return this.#ends.has(id);
  }

  /**
   * Bytes of a token as automata see it: a special token is a mark. Undefined for tokens that end a
   * text, have no bytes, or have some that only marks have.
   */
  bytes(id: number): Uint8Array | undefined {
    if (this.isEnd(id)) return undefined;
    const bytes = this.#source.bytes(id);
    if (bytes.length === 0) return undefined;
    if (this.#source.isSpecial(id)) return markBytes(id);
    return bytes.some((byte) => byte === MARK_BYTE || isSign(byte)) ? undefined : bytes;
  }
}
