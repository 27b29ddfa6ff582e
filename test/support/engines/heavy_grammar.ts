/**
 * A vocabulary and patterns whose masks take many slices of 2 ms, on a fast machine too.
 *
 * @module
 */
import type { TokenSource } from "../../../src/grammar/masks/grammar_vocabulary.ts";
import { randomSource } from "../../grammar/samples/random_grammar.ts";

const WORDS = 40_000;
const LETTERS = 12;
const A = "a".charCodeAt(0);

/** Token that ends a text, and one that is special. */
export const END = 0;
export const SPECIAL = 1;

/** Token of a byte. */
export const byteToken = (byte: number) => 2 + byte;
/** Tokens of a text, byte by byte. */
export const byteTokens = (text: string) => [...new TextEncoder().encode(text)].map(byteToken);

/** The two, all bytes, and many long words. */
export function heavyTokens(): TokenSource {
  const random = randomSource(1);
  const word = () => Uint8Array.from({ length: LETTERS }, () => A + random.below(26));
  const table = [
    ...["</s>", "<s>"].map((text) => new TextEncoder().encode(text)),
    ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
    ...Array.from({ length: WORDS }, word),
  ];
  return {
    size: table.length,
    bytes: (id) => table[id]!,
    isSpecial: (id) => id === END || id === SPECIAL,
  };
}

/**
 * A regular expression that takes a while to compile, and longer at its masks; one for each letter. Each of
 * its alternatives lacks letters of its own, so that no text leads all of them on alike.
 */
export function heavyPattern(letter: string): string {
  const words = (most: number, lacks: string) =>
    `([^\\s\\p{P}${lacks}]{1,${most}}${letter}? ?){30}`;
  return Array.from({ length: 6 }, (_, i) => {
    const lacks = [i, 7 * i + 3].map((at) => String.fromCharCode(A + (at % 26)));
    return words(20 + i, lacks.join(""));
  }).join("|");
}
