/**
 * Named sets of characters of regular expressions, and letters without regard to case.
 *
 * What a Unicode property holds and which letters differ only in case, the JavaScript engine itself
 * is asked, once for each property or letter that a pattern uses.
 *
 * @module
 */

import {
  ANY_CODE_POINT,
  type CodePointRange,
  type CodePoints,
  codePoints,
  codePointsOf,
  hasCodePoint,
  invert,
  MAX_CODE_POINT,
  subtractSet,
  unite,
} from "../automaton/code_points.ts";

const DIGITS = codePoints([[0x30, 0x39]]);
const WORD_CHARACTERS = codePoints([
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
]);
/** White space and line terminators of ECMAScript. */
const SPACES = codePoints([
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]);

export const LINE_BREAKS = codePointsOf("\n\r\u2028\u2029");
/** What `.` matches without the flag `s`. */
export const NOT_LINE_BREAKS = subtractSet(ANY_CODE_POINT, LINE_BREAKS);

const SHORTHANDS: Readonly<Record<string, CodePoints>> = {
  d: DIGITS,
  D: invert(DIGITS),
  s: SPACES,
  S: invert(SPACES),
  w: WORD_CHARACTERS,
  W: invert(WORD_CHARACTERS),
};

/** `\w` without regard to case: U+017F and U+212A are an s and a k. */
const WORD_WITH_CASES = unite([WORD_CHARACTERS, codePointsOf("\u017f\u212a")]);
const NOT_WORD_WITH_CASES = invert(WORD_WITH_CASES);

/** The set of `\d`, `\w` or `\s`, or of its upper-case opposite; undefined for other letters. */
export function shorthandSet(letter: string, ignoreCase: boolean): CodePoints | undefined {
  if (ignoreCase && letter === "w") return WORD_WITH_CASES;
  if (ignoreCase && letter === "W") return NOT_WORD_WITH_CASES;
  return SHORTHANDS[letter];
}

const PLANE = 0x10000;
const utf16 = new TextDecoder("utf-16le", { ignoreBOM: true });
const properties = new Map<string, CodePoints>();

/**
 * Characters with a Unicode property.
 *
 * @param name As inside `\p{}`: `L`, `Letter`, `Script=Greek`, ...
 * @returns Undefined when the engine knows no such property.
 */
export function propertySet(name: string): CodePoints | undefined {
  const known = properties.get(name);
  if (known !== undefined) return known;
  let runs: RegExp;
  try {
    // Two kinds of runs that leave nothing out are found faster than one.
    runs = new RegExp(`(\\p{${name}}+)|\\P{${name}}+`, "gu");
  } catch {
    return undefined;
  }
  const set = codePoints(findRuns(runs));
  properties.set(name, set);
  return set;
}

/** First and last of neighbouring characters that the expression captures. */
function* findRuns(runs: RegExp): Generator<CodePointRange> {
  for (let plane = 0; plane <= MAX_CODE_POINT; plane += PLANE) {
    for (const [, run] of charactersOfPlane(plane).matchAll(runs)) {
      if (run === undefined) continue;
      const last = run.charCodeAt(run.length - 1);
      const isPair = last >= 0xdc00 && last < 0xe000;
      yield [run.codePointAt(0)!, isPair ? run.codePointAt(run.length - 2)! : last];
    }
  }
}

/** All characters of one of the 17 planes, in order. */
function charactersOfPlane(plane: number): string {
  const units = new Uint16Array(2 * PLANE);
  let count = 0;
  for (let point = plane; point < plane + PLANE; point++) {
    if (point >= PLANE) {
      units[count++] = 0xd7c0 + (point >> 10);
      units[count++] = 0xdc00 + (point & 0x3ff);
    } else if (point < 0xd800 || point >= 0xe000) {
      units[count++] = point;
    }
  }
  return utf16.decode(units.subarray(0, count));
}

interface CasedCharacters {
  readonly points: CodePoints;
  /** All of them, one after another. */
  readonly text: string;
}

let cased: CasedCharacters | undefined;

/** All characters that have another case. */
function casedCharacters(): CasedCharacters {
  if (cased === undefined) {
    const points = unite([
      propertySet("Changes_When_Casemapped")!,
      propertySet("Changes_When_Casefolded")!,
    ]);
    const characters = points.flatMap(([first, last]) =>
      Array.from({ length: last - first + 1 }, (_, i) => String.fromCodePoint(first + i)),
    );
    cased = { points, text: characters.join("") };
  }
  return cased;
}

const otherCases = new Map<number, CodePoints>();

/** The set with all characters that differ from one of it in case only: flags `iu`. */
export function withOtherCases(set: CodePoints): CodePoints {
  const point = set.length === 1 && set[0]![0] === set[0]![1] ? set[0]![0] : undefined;
  if (point === undefined) return unite([set, matchIgnoringCase(set)]);
  const known = otherCases.get(point);
  if (known !== undefined) return known;
  if (!hasCodePoint(casedCharacters().points, point)) return set;
  const all = unite([set, matchIgnoringCase(set)]);
  otherCases.set(point, all);
  return all;
}

function matchIgnoringCase(set: CodePoints): CodePoints {
  if (set.length === 0) return set;
  const spell = (point: number) => `\\u{${point.toString(16)}}`;
  const ranges = set.map(([first, last]) => `${spell(first)}-${spell(last)}`);
  const one = new RegExp(`[${ranges.join("")}]`, "giu");
  return codePointsOf((casedCharacters().text.match(one) ?? []).join(""));
}
