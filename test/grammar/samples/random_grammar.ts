/**
 * Random expressions, grammars and texts over a small alphabet, the same for the same seed.
 *
 * @module
 */
import { codePointsOf } from "../../../src/grammar/automaton/code_points.ts";
import {
  choice,
  EMPTY,
  type Expression,
  type Grammar,
  NEVER,
  repeat,
  rule,
  sequence,
  text,
} from "../../../src/grammar/expression.ts";

/** One to four bytes of UTF-8; é and è share their first byte. */
export const ALPHABET = ["a", "b", "é", "è", "語", "😀"] as const;

export interface RandomSource {
  /** Whole number from 0 to `count` - 1. */
  below(count: number): number;
  /** Zero to `most` characters. */
  text(most: number): string;
  /** Without rules, nested at most `depth` deep. */
  regular(depth: number): Expression;
  /** Rules that refer to each other; they may be left recursive, or have no finite text. */
  grammar(rules: number): Grammar;
}

export function randomSource(seed: number): RandomSource {
  let state = seed >>> 0;
  const below = (count: number): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * count);
  };
  const character = () => ALPHABET[below(ALPHABET.length)]!;
  const word = (most: number) => Array.from({ length: below(most + 1) }, character).join("");

  const expression = (depth: number, names: readonly string[]): Expression => {
    const inner = () => expression(depth - 1, names);
    const several = () => Array.from({ length: 1 + below(3) }, inner);
    switch (below(depth > 0 ? 10 : 4)) {
      case 0:
        return { kind: "class", points: codePointsOf(word(4)) };
      case 1:
        return names.length > 0 ? rule(names[below(names.length)]!) : text(character());
      case 2:
        return [EMPTY, NEVER, text(word(2)), text(word(2))][below(4)]!;
      case 3:
        return text(character() + word(2));
      case 4:
      case 5:
        return sequence(several());
      case 6:
      case 7:
        return choice(several());
      default: {
        const min = below(3);
        const max = below(2) === 0 ? Number.POSITIVE_INFINITY : min + below(3);
        return repeat(inner(), { min, max });
      }
    }
  };

  return {
    below,
    text: word,
    regular: (depth) => expression(depth, []),
    grammar: (rules) => {
      const names = Array.from({ length: rules }, (_, i) => `r${i}`);
      return { rules: new Map(names.map((name) => [name, expression(3, names)])), root: "r0" };
    },
  };
}
