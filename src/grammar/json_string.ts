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
  invert,
  rangesKey,
} from "./automaton/code_points.ts";
import { AutomatonBuilder } from "./automaton/regular.ts";
import { spendEffort } from "./effort.ts";
import { type CodePointAutomaton, needBehind } from "./expression.ts";

/** Characters that stand for themselves in a string of JSON. */
export const UNESCAPED = codePoints([
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

/** Of the digits that go on from a state. */
const DIGITS_EFFORT = 5;

/** Digits in a row, and the value of the first. */
const HEXADECIMAL: readonly (readonly [digit: number, characters: string])[] = [
  [0, "0123456789"],
  [10, "abcdef"],
  [10, "ABCDEF"],
];

/** Ranges of 16-bit numbers that are to be written with four hexadecimal digits. */
type Units = readonly CodePointRange[];

/** Characters of ASCII that programs do not escape. */
export const PLAIN_ASCII = intersectSets(UNESCAPED, [[0x20, 0x7e]]);

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

/** Characters that lead to a state. */
interface Way {
  readonly points: CodePoints;
  readonly target: number;
}

class Spelling {
  readonly builder = new AutomatonBuilder();
  /** Ways by escapes -> state behind the backslash: most states have the same ones. */
  readonly #escapedStates = new Map<string, number>();
  /** Digits that are still to come and their target -> state. */
  readonly #digitStates = new Map<string | number, number>();

  constructor({ states }: CodePointAutomaton, plain: CodePoints) {
    const escapable = invert(plain);
    for (const { accepting } of states) this.builder.add(accepting);
    states.forEach(({ edges }, state) => {
      const pointsOf = new Map<number, CodePointRange[]>();
      for (const edge of edges) {
        const { first, last, target } = edge;
        if (needBehind(edge) !== undefined) {
          this.builder.connect(state, edge);
          continue;
        }
        const points = pointsOf.get(target);
        if (points === undefined) pointsOf.set(target, [[first, last]]);
        else points.push([first, last]);
      }
      const escapes: Way[] = [];
      for (const [target, ranges] of pointsOf) {
        const points = codePoints(ranges);
        this.#spellRaw(state, points, target);
        const escaped = intersectSets(points, escapable);
        if (escaped.length > 0) escapes.push({ points: escaped, target });
      }
      if (escapes.length > 0) this.#connect(state, "\\", this.#escaped(escapes));
    });
  }

  #escaped(ways: readonly Way[]): number {
    const key = ways.map(({ points, target }) => rangesKey(target, points)).join(" ");
    let escaped = this.#escapedStates.get(key);
    if (escaped === undefined) {
      escaped = this.builder.add(false);
      this.#escapedStates.set(key, escaped);
      const unicode = this.#follow(escaped, "u");
      for (const { points, target } of ways) {
        this.#spellShort(escaped, points, target);
        this.#spellUnits(unicode, intersectSets(points, [[0, 0xffff]]), target);
        this.#spellPairs(unicode, intersectSets(points, [[0x10000, 0x10ffff]]), target);
      }
    }
    return escaped;
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
    for (const [first, last] of intersectSets(points, UNESCAPED)) {
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

  /** Digits with the same continuations share a state, and neighbours among them an edge. */
  #spellDigits(
    state: number,
    units: Units,
    { left, target }: { readonly left: number; readonly target: number },
  ): void {
    spendEffort(DIGITS_EFFORT);
    const share = 16 ** (left - 1);
    const rests: (CodePointRange[] | undefined)[] = Array.from({ length: 16 });
    for (const [first, last] of units) {
      for (let digit = Math.floor(first / share); digit * share <= last; digit++) {
        const from = Math.max(first - digit * share, 0);
        const rest = rests[digit] ?? [];
        rests[digit] = rest;
        rest.push([from, Math.min(last - digit * share, share - 1)]);
      }
    }
    const nextOf = rests.map((rest) => {
      if (rest === undefined || left === 1) return rest && target;
      return this.#digits(rest, { left: left - 1, target });
    });
    for (let first = 0, last = 0; first < 16; first = last + 1) {
      const next = nextOf[first];
      for (last = first; last < 15 && nextOf[last + 1] === next; ) last += 1;
      if (next !== undefined) this.#connectDigits(state, [first, last], next);
    }
  }

  #connectDigits(state: number, [first, last]: CodePointRange, target: number): void {
    for (const [digit, characters] of HEXADECIMAL) {
      const from = Math.max(first - digit, 0);
      const to = Math.min(last - digit, characters.length - 1);
      if (from > to) continue;
      const point = (place: number) => characters.charCodeAt(place);
      this.builder.connect(state, { first: point(from), last: point(to), target });
    }
  }

  #digits(units: Units, rest: { readonly left: number; readonly target: number }): number {
    const { left, target } = rest;
    const [first, last] = units[0]!;
    const isAny = first === 0 && last === 16 ** left - 1;
    const key = isAny ? 4 * target + left : rangesKey(4 * target + left, units);
    let state = this.#digitStates.get(key);
    if (state === undefined) {
      state = this.builder.add(false);
      this.#digitStates.set(key, state);
      this.#spellDigits(state, units, rest);
    }
    return state;
  }
}
