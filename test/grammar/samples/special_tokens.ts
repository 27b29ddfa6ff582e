/**
 * A vocabulary of bytes and special tokens, and texts that are followed token by token.
 *
 * @module
 */
import { expect } from "vitest";
import { frontEnds } from "../../../src/grammar/constraints/backends.ts";
import { type Constraint, GrammarCompiler } from "../../../src/grammar/grammar.ts";
import { smallVocabulary, tokensOf } from "./small_vocabulary.ts";

export const SPECIAL = [
  "<end>",
  "<｜tool▁calls▁begin｜>",
  "<｜tool▁call▁begin｜>",
  "<｜tool▁sep｜>",
  "<｜tool▁call▁end｜>",
  "<｜tool▁calls▁end｜>",
  "<think>",
  "</think>",
  "<unused>",
];
const BYTES = 256;
const END = BYTES;
const vocabulary = smallVocabulary({
  tokens: [...Array.from({ length: BYTES }, (_, byte) => Uint8Array.of(byte)), ...SPECIAL],
  special: SPECIAL.map((_, i) => BYTES + i),
  endTokens: [END],
});
export const compiler = new GrammarCompiler({ vocabulary, frontEnds: frontEnds() });

/** The text as tokens; those in double brackets are special: "a[[think]]b". */
function tokens(text: string): number[] {
  return text.split(/(\[\[.*?\]\])/).flatMap((part) => {
    const name = /^\[\[(.*)\]\]$/.exec(part)?.[1];
    if (name === undefined) return [...new TextEncoder().encode(part)];
    const index = SPECIAL.findIndex((special) => special.includes(name));
    expect(index).toBeGreaterThanOrEqual(0);
    return [BYTES + index];
  });
}

/** How far a text is allowed, and whether it may end there. */
export function follow(constraint: Constraint, text: string): "complete" | "begun" | "refused" {
  const matcher = compiler.compile(constraint).createMatcher();
  const mask = new Uint32Array(vocabulary.words);
  for (const token of tokens(text)) {
    matcher.mask(mask);
    const isAllowed = tokensOf(mask).includes(token);
    expect(matcher.accept(token)).toBe(isAllowed);
    if (!isAllowed) return "refused";
  }
  matcher.mask(mask);
  expect(tokensOf(mask).includes(END)).toBe(matcher.isAccepting);
  return matcher.isAccepting ? "complete" : "begun";
}
