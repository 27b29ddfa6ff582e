/**
 * Letters in place of characters: those that no set of a pattern tells apart are one letter.
 *
 * Letters are code points too, from 0 on, and the last one is all others, so that whatever works on
 * characters works on letters, with a few ranges where a property of Unicode has hundreds.
 *
 * @module
 */

import {
  ANY_CODE_POINT,
  type CodePointRange,
  type CodePoints,
  codePoints,
  hasCodePoint,
  MAX_CODE_POINT,
  rangesKey,
  unite,
} from "../../automaton/code_points.ts";
import { spendEffort } from "../../effort.ts";
import { GrammarError } from "../../grammar_error.ts";

/** So that no letter is a surrogate. */
const MAX_LETTERS = 50_000;
const RANGE_EFFORT = 0.2;

export class Alphabet {
  /** The characters of each letter. */
  readonly #letters: readonly CodePoints[];
  readonly #translated = new Map<string, CodePoints>();
  readonly #expanded = new Map<string, CodePoints>();

  constructor(sets: Iterable<CodePoints>) {
    const distinct = new Map<string, CodePoints>();
    for (const set of sets) distinct.set(rangesKey(0, set), set);
    const parts = intervals(distinct.values());
    const letterOf = new Int32Array(parts.length);
    let count = 1;
    for (const set of distinct.values()) {
      spendEffort(RANGE_EFFORT * (1 + set.length + parts.length / 10));
      const split = new Map<number, number>();
      for (let i = 0; i < parts.length; i++) {
        if (!hasCodePoint(set, parts[i]![0])) continue;
        const letter = split.get(letterOf[i]!) ?? count++;
        split.set(letterOf[i]!, letter);
        letterOf[i] = letter;
      }
    }
    const letters = new Map<number, CodePointRange[]>();
    parts.forEach((part, i) => {
      const known = letters.get(letterOf[i]!);
      if (known === undefined) letters.set(letterOf[i]!, [part]);
      else known.push(part);
    });
    if (letters.size > MAX_LETTERS) {
      throw new GrammarError(
        `Cannot read the regular expression: its sets tell more than ${MAX_LETTERS} kinds of characters apart`,
      );
    }
    this.#letters = [...letters.values()].map((ranges) => codePoints(ranges));
  }

  /** One of the sets, as letters. */
  letters(set: CodePoints): CodePoints {
    const key = rangesKey(0, set);
    let known = this.#translated.get(key);
    if (known === undefined) {
      spendEffort(RANGE_EFFORT * this.#letters.length);
      const ranges: CodePointRange[] = [];
      this.#letters.forEach((characters, letter) => {
        if (hasCodePoint(set, characters[0]![0])) ranges.push([letter, this.#lastOf(letter)]);
      });
      known = codePoints(ranges);
      this.#translated.set(key, known);
    }
    return known;
  }

  /** The characters of some letters. */
  characters(letters: CodePoints): CodePoints {
    const key = rangesKey(0, letters);
    let known = this.#expanded.get(key);
    if (known === undefined) {
      const found = letters.flatMap(([first, last]) => this.#letters.slice(first, last + 1));
      known = unite(found);
      spendEffort(RANGE_EFFORT * (found.length + known.length));
      this.#expanded.set(key, known);
    }
    return known;
  }

  #lastOf(letter: number): number {
    return letter === this.#letters.length - 1 ? MAX_CODE_POINT : letter;
  }
}

/** All characters, cut wherever a set begins or ends. */
function intervals(sets: Iterable<CodePoints>): readonly CodePointRange[] {
  const cuts = new Set<number>();
  for (const set of sets) {
    spendEffort(RANGE_EFFORT * set.length);
    for (const [first, last] of set) cuts.add(first).add(last + 1);
  }
  const sorted = [...cuts].sort((a, b) => a - b);
  const parts: CodePointRange[] = [];
  let at = 0;
  for (const [from, to] of ANY_CODE_POINT) {
    let first = from;
    for (; at < sorted.length && sorted[at]! <= to; at++) {
      if (sorted[at]! > first) parts.push([first, sorted[at]! - 1]);
      first = Math.max(first, sorted[at]!);
    }
    if (first <= to) parts.push([first, to]);
  }
  return parts;
}
