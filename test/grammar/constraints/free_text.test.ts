import { expect, test } from "vitest";
import { accepts } from "../../../src/grammar/automaton/regular.ts";
import { textUpTo, textWithout } from "../../../src/grammar/constraints/free_text.ts";
import { randomSource } from "../samples/random_grammar.ts";

const ALPHABET = Array.from("aab😀");

/** The word that is complete first, at the same place the longest; where it ends. */
function firstWord(text: string, words: readonly string[]) {
  for (let end = 1; end <= text.length; end++) {
    const complete = words.filter((word) => text.slice(0, end).endsWith(word));
    const [longest] = complete.toSorted((a, b) => b.length - a.length);
    if (longest !== undefined) return { word: longest, end };
  }
  return undefined;
}

test("texts without words and up to a word, by looking for the words", () => {
  const { below } = randomSource(1);
  const draw = (most: number) =>
    Array.from({ length: below(most + 1) }, () => ALPHABET[below(ALPHABET.length)]!).join("");
  const found = { free: 0, complete: 0 };
  for (let round = 0; round < 100; round++) {
    const words = Array.from({ length: 1 + below(4) }, () => draw(4)).filter(Boolean);
    const free = textWithout(words);
    const upTo = words.map((word) => textUpTo(words, word));
    for (let i = 0; i < 20; i++) {
      const text = draw(9);
      const first = firstWord(text, words);
      const shown = JSON.stringify({ words, text });
      expect(accepts(free, text), shown).toBe(first === undefined);
      words.forEach((word, j) => {
        const isUpTo = first?.word === word && first.end === text.length;
        expect(accepts(upTo[j]!, text), shown).toBe(isUpTo);
        if (isUpTo) found.complete += 1;
      });
      if (first === undefined) found.free += 1;
    }
  }
  expect(Math.min(found.free, found.complete)).toBeGreaterThan(100);
});

test("no word costs more than its length", () => {
  const word = "ab".repeat(10_000);
  expect(textWithout([word]).states).toHaveLength(word.length);
  expect(accepts(textUpTo([word], word), `abb${word}`)).toBe(true);
});
