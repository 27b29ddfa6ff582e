/**
 * A regular language as it stands between the quotes of a JSON string.
 *
 * JSON has up to four ways to write a character: itself, `\u` and four hexadecimal digits of either
 * case (twice, as a surrogate pair, above U+FFFF), and for eight characters a short escape. A
 * value is the same whichever is used, so all of them are accepted. Control characters, the quote
 * and the backslash have no form of their own (RFC 8259, section 7).
 *
 * @module
 */

import {
  type CodePointRange,
  type CodePoints,
  codePoints,
  intersectSets,
  subtractSet,
} from "./code_points.ts";
import type { CodePointAutomaton } from "./expression.ts";
import { AutomatonBuilder } from "./regular.ts";

const RAW = codePoints([
  [0x20, 0x21],
  [0x23, 0x5b],
  [0x5d, 0x10ffff],
]);

/** What follows the backslash -> the character it means. */
const SHORT_ESCAPES: readonly (readonly [letter: string, meaning: string])[] = [
  ['"', '"'],
  ["\\", "\\"],
  ["/", "/"],
  ["b", "\b"],
  ["f", "\f"],
  ["n", "\n"],
  ["r", "\r"],
  ["t", "\t"],
];

/** Ranges of 16-bit numbers that are to be written with four hexadecimal digits. */
type Units = readonly CodePointRange[];

/** Characters of ASCII that nobody escapes. */
export const PLAIN_ASCII = intersectSets(RAW, [[0x20, 0x7e]]);

/**
 * Every way to write the texts of a language inside a JSON string, without the quotes.
 *
 * @param plain Characters that are to be written as they are and in no other way, which makes the
 * result much smaller. By default there are none.
 */
export function insideJsonString(
  automaton: CodePointAutomaton,
  plain: CodePoints = [],
): CodePointAutomaton {
  return new Spelling(automaton, plain).builder.build();
}

class Spelling {
  readonly builder = new AutomatonBuilder();
  /** Digits that are still to come and their target -> state. */
  readonly #digitStates = new Map<string, number>();

  constructor({ states }: CodePointAutomaton, plain: CodePoints) {
    for (const { accepting } of states) this.builder.add(accepting);
    states.forEach(({ edges }, state) => {
      if (edges.length === 0) return;
      const escaped = this.#follow(state, "\\");
      const unicode = this.#follow(escaped, "u");
      const pointsOf = new Map<number, CodePointRange[]>();
      for (const { first, last, target } of edges) {
        const points = pointsOf.get(target);
        if (points === undefined) pointsOf.set(target, [[first, last]]);
        else points.push([first, last]);
      }
      for (const [target, ranges] of pointsOf) {
        const points = codePoints(ranges);
        this.#spellRaw(state, points, target);
        const escapable = subtractSet(points, plain);
        this.#spellShort(escaped, escapable, target);
        this.#spellUnits(unicode, intersectSets(escapable, [[0, 0xffff]]), target);
        this.#spellPairs(unicode, intersectSets(escapable, [[0x10000, 0x10ffff]]), target);
      }
    });
  }

  /** A new state behind one character. */
  #follow(state: number, character: string): number {
    const target = this.builder.add(false);
    this.#connect(state, character, target);
    return target;
  }

  #connect(state: number, character: string, target: number): void {
    const point = character.codePointAt(0)!;
    this.builder.connect(state, { first: point, last: point, target });
  }

  #spellRaw(state: number, points: CodePoints, target: number): void {
    for (const [first, last] of intersectSets(points, RAW)) {
      this.builder.connect(state, { first, last, target });
    }
  }

  #spellShort(escaped: number, points: CodePoints, target: number): void {
    for (const [letter, meaning] of SHORT_ESCAPES) {
      const point = meaning.codePointAt(0)!;
      if (points.some(([first, last]) => first <= point && point <= last)) {
        this.#connect(escaped, letter, target);
      }
    }
  }

  /** Surrogate pairs: every range falls into at most three blocks of whole high x low ranges. */
  #spellPairs(unicode: number, points: CodePoints, target: number): void {
    const highsOf = new Map<
      string,
      { readonly low: CodePointRange; readonly highs: CodePointRange[] }
    >();
    const addBlock = (high: CodePointRange, low: CodePointRange): void => {
      const block = highsOf.get(low.join()) ?? { low, highs: [] };
      block.highs.push([0xd800 + high[0], 0xd800 + high[1]]);
      highsOf.set(low.join(), block);
    };
    for (const [first, last] of points) {
      const [from, to] = [first - 0x10000, last - 0x10000];
      const [firstHigh, lastHigh] = [from >> 10, to >> 10];
      const [firstLow, lastLow] = [from & 0x3ff, to & 0x3ff];
      if (firstHigh === lastHigh) {
        addBlock([firstHigh, firstHigh], [firstLow, lastLow]);
        continue;
      }
      addBlock([firstHigh, firstHigh], [firstLow, 0x3ff]);
      if (firstHigh + 1 < lastHigh) addBlock([firstHigh + 1, lastHigh - 1], [0, 0x3ff]);
      addBlock([lastHigh, lastHigh], [0, lastLow]);
    }
    for (const { low, highs } of highsOf.values()) {
      const between = this.builder.add(false);
      const lowUnits = this.#follow(this.#follow(between, "\\"), "u");
      this.#spellUnits(unicode, highs, between);
      this.#spellUnits(lowUnits, [[0xdc00 + low[0], 0xdc00 + low[1]]], target);
    }
  }

  /** Four hexadecimal digits. */
  #spellUnits(state: number, units: Units, target: number): void {
    this.#spellDigits(state, units, { left: 4, target });
  }

  /** Digits with the same continuations share a state. */
  #spellDigits(
    state: number,
    units: Units,
    { left, target }: { readonly left: number; readonly target: number },
  ): void {
    const share = 16 ** (left - 1);
    for (let digit = 0; digit < 16; digit++) {
      const rest = units
        .map(
          ([a, b]): CodePointRange => [
            Math.max(a - digit * share, 0),
            Math.min(b - digit * share, share - 1),
          ],
        )
        .filter(([a, b]) => a <= b);
      if (rest.length === 0) continue;
      const next = left === 1 ? target : this.#digits(rest, { left: left - 1, target });
      const text = digit.toString(16);
      this.#connect(state, text, next);
      if (digit > 9) this.#connect(state, text.toUpperCase(), next);
    }
  }

  #digits(units: Units, rest: { readonly left: number; readonly target: number }): number {
    const key = `${rest.left}:${rest.target}:${units.join(";")}`;
    let state = this.#digitStates.get(key);
    if (state === undefined) {
      state = this.builder.add(false);
      this.#digitStates.set(key, state);
      this.#spellDigits(state, units, rest);
    }
    return state;
  }
}
