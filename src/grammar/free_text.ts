/**
 * Text that may be anything but for certain words.
 *
 * @module
 */

import { MAX_CODE_POINT } from "./code_points.ts";
import type { CodePointAutomaton, CodePointEdge } from "./expression.ts";

const FIRST_SURROGATE = 0xd800;
const LAST_SURROGATE = 0xdfff;

/** All texts in which none of the words occurs. */
export function textWithout(words: readonly string[]): CodePointAutomaton {
  return wordAutomaton(words, undefined);
}

/** All texts that end with `word` and in which none of the words has occurred before. */
export function textUpTo(words: readonly string[], word: string): CodePointAutomaton {
  return wordAutomaton(words, word);
}

/**
 * One state for each beginning of a word: the longest one that the text so far ends with (Aho and
 * Corasick). A word that is complete ends the text.
 */
function wordAutomaton(words: readonly string[], last: string | undefined): CodePointAutomaton {
  const spelled = words.map((word) => Array.from(word));
  const beginnings = new Map<string, number>([["", 0]]);
  for (const word of spelled) {
    for (let length = 1; length < word.length; length++) {
      const beginning = word.slice(0, length).join("");
      if (!beginnings.has(beginning)) beginnings.set(beginning, beginnings.size);
    }
  }
  const end = beginnings.size;
  const characters = [...new Set(spelled.flat())];
  const points = characters.map((character) => character.codePointAt(0)!).toSorted((a, b) => a - b);
  const states = [...beginnings.keys()].map((beginning) => {
    const edges: CodePointEdge[] = othersThan(points);
    for (const character of characters) {
      const suffixes = suffixesOf(beginning + character);
      const complete = suffixes.find((suffix) => words.includes(suffix));
      const target = complete === undefined ? longest(suffixes, beginnings) : end;
      if (complete !== undefined && complete !== last) continue;
      const point = character.codePointAt(0)!;
      edges.push({ first: point, last: point, target });
    }
    return { accepting: last === undefined, edges };
  });
  return { states: last === undefined ? states : [...states, { accepting: true, edges: [] }] };
}

/** From the longest to the empty one. */
function suffixesOf(value: string): readonly string[] {
  const characters = Array.from(value);
  return Array.from({ length: characters.length + 1 }, (_, i) => characters.slice(i).join(""));
}

function longest(suffixes: readonly string[], beginnings: ReadonlyMap<string, number>): number {
  return beginnings.get(suffixes.find((suffix) => beginnings.has(suffix))!)!;
}

/** Edges to the start by every character that occurs in no word. */
function othersThan(points: readonly number[]): CodePointEdge[] {
  const edges: CodePointEdge[] = [];
  const add = (first: number, last: number) => {
    if (first <= last) edges.push({ first, last, target: 0 });
  };
  let from = 0;
  for (const point of [...points, MAX_CODE_POINT + 1]) {
    add(from, Math.min(point - 1, FIRST_SURROGATE - 1));
    add(Math.max(from, LAST_SURROGATE + 1), point - 1);
    from = point + 1;
  }
  return edges;
}
