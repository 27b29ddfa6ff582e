/**
 * Vocabularies for tests: a list of byte strings, with some ids that are special.
 *
 * @module
 */
import type {
  Configuration,
  Configurations,
} from "../../../src/grammar/automaton/configurations.ts";
import {
  GrammarVocabulary,
  type TokenSource,
} from "../../../src/grammar/masks/grammar_vocabulary.ts";
import type { RandomSource } from "./random_grammar.ts";

export interface SmallVocabularyOptions {
  /** Texts, or bytes where no text will do. "" is an id without a token. */
  readonly tokens: readonly (string | Uint8Array)[];
  readonly special?: readonly number[];
  readonly endTokens?: readonly number[];
  readonly size?: number;
  readonly horizon?: number;
}

const encoder = new TextEncoder();

export function smallVocabulary(options: SmallVocabularyOptions): GrammarVocabulary {
  const { tokens, special = [], endTokens = [], size, horizon } = options;
  const bytes = tokens.map((token) => (typeof token === "string" ? encoder.encode(token) : token));
  const source: TokenSource = {
    size: tokens.length,
    bytes: (id) => bytes[id] ?? new Uint8Array(0),
    isSpecial: (id) => special.includes(id),
  };
  return new GrammarVocabulary(source, { endTokens, size, horizon });
}

/** All single bytes, then random runs cut anywhere, also inside characters, some of them twice. */
export function randomTokens(random: RandomSource, count: number): Uint8Array[] {
  const tokens = Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte));
  while (tokens.length < 256 + count) {
    const bytes = encoder.encode(random.text(12));
    const from = random.below(bytes.length + 1);
    const token = bytes.subarray(from, from + 1 + random.below(20));
    if (token.length > 0) tokens.push(token);
  }
  return tokens;
}

/** Tokens that the words allow. */
export function tokensOf(words: Uint32Array): number[] {
  const tokens: number[] = [];
  words.forEach((word, i) => {
    for (let bit = 0; bit < 32; bit++) if ((word >>> bit) & 1) tokens.push(i * 32 + bit);
  });
  return tokens;
}

/** The tokens that may come next, by following the bytes of each on its own. */
export function tokensByStepping(
  vocabulary: GrammarVocabulary,
  configurations: Configurations,
  configuration: Configuration,
): number[] {
  return Array.from({ length: vocabulary.size }, (_, id) => id).filter((id) => {
    if (vocabulary.isEnd(id)) return configuration.accepting;
    const bytes = vocabulary.bytes(id);
    if (bytes === undefined) return false;
    configurations.begin();
    return configurations.follow(configuration, bytes) !== null;
  });
}
