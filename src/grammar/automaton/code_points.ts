/**
 * Sets of Unicode code points, as sorted ranges.
 *
 * UTF-8 cannot spell surrogates (U+D800 to U+DFFF), so no set here ever holds one: the complement of
 * a set is taken among the 1,112,064 other code points.
 *
 * @module
 */

/** First and last code point, both inside. */
export type CodePointRange = readonly [first: number, last: number];

/** Rising ranges that neither overlap nor touch, without surrogates. Made by `codePoints`. */
export type CodePoints = readonly CodePointRange[];

export const MAX_CODE_POINT = 0x10ffff;
const FIRST_SURROGATE = 0xd800;
const LAST_SURROGATE = 0xdfff;

/** Every code point that UTF-8 can spell. */
export const ANY_CODE_POINT: CodePoints = [
  [0, FIRST_SURROGATE - 1],
  [LAST_SURROGATE + 1, MAX_CODE_POINT],
];

/** The set of some ranges in any order, overlapping or not. Surrogates are left out. */
export function codePoints(ranges: Iterable<CodePointRange>): CodePoints {
  const parts: CodePointRange[] = [];
  for (const [first, last] of ranges) {
    const [from, to] = [Math.max(first, 0), Math.min(last, MAX_CODE_POINT)];
    const low: CodePointRange = [from, Math.min(to, FIRST_SURROGATE - 1)];
    const high: CodePointRange = [Math.max(from, LAST_SURROGATE + 1), to];
    for (const part of [low, high]) if (part[0] <= part[1]) parts.push(part);
  }
  parts.sort((a, b) => a[0] - b[0]);

  const set: [number, number][] = [];
  for (const [first, last] of parts) {
    const previous = set.at(-1);
    if (previous !== undefined && first <= previous[1] + 1) {
      previous[1] = Math.max(previous[1], last);
    } else {
      set.push([first, last]);
    }
  }
  return set;
}

/** The characters of a text as a set. */
export function codePointsOf(characters: string): CodePoints {
  return codePoints(Array.from(characters, (c) => [c.codePointAt(0)!, c.codePointAt(0)!] as const));
}

export function unite(sets: readonly CodePoints[]): CodePoints {
  return codePoints(sets.flat());
}

/** Every code point that is not in the set. */
export function invert(set: CodePoints): CodePoints {
  const gaps: CodePointRange[] = [];
  let next = 0;
  for (const [first, last] of set) {
    gaps.push([next, first - 1]);
    next = last + 1;
  }
  gaps.push([next, MAX_CODE_POINT]);
  return codePoints(gaps.filter(([first, last]) => first <= last));
}

/** Code points of both sets. */
export function intersectSets(a: CodePoints, b: CodePoints): CodePoints {
  const common: CodePointRange[] = [];
  for (let i = 0, j = 0; i < a.length && j < b.length; ) {
    const first = Math.max(a[i]![0], b[j]![0]);
    const last = Math.min(a[i]![1], b[j]![1]);
    if (first <= last) common.push([first, last]);
    if (a[i]![1] < b[j]![1]) i += 1;
    else j += 1;
  }
  return common;
}

/** Code points of the first set that are not in the second. */
export function subtractSet(a: CodePoints, b: CodePoints): CodePoints {
  return intersectSets(a, invert(b));
}

/** The same text for the same number and ranges. */
export function rangesKey(number: number, ranges: readonly CodePointRange[]): string {
  let key = String(number);
  for (const [first, last] of ranges) key += `;${first},${last}`;
  return key;
}

export function hasCodePoint(set: CodePoints, point: number): boolean {
  let low = 0;
  let high = set.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (set[middle]![1] < point) low = middle + 1;
    else high = middle;
  }
  return low < set.length && set[low]![0] <= point;
}
