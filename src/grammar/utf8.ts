/**
 * A set of code points as the bytes of UTF-8.
 *
 * The result is a small graph: from its first node, each way through it spells one code point, and
 * every code point of the set is spelled exactly once, in its only valid form (RFC 3629). Nodes with
 * equal continuations are one node, and neighbouring bytes that lead to the same one are one edge.
 *
 * @module
 */

import { type CodePointRange, type CodePoints, intersectSets } from "./code_points.ts";

export interface Utf8Node {
  /** Rising and disjoint. */
  readonly edges: readonly Utf8Edge[];
}

export interface Utf8Edge {
  readonly first: number;
  readonly last: number;
  /** Undefined behind the last byte of a character. */
  readonly next: Utf8Node | undefined;
}

/** Code points by the number of their continuation bytes, and what marks their first byte. */
const LENGTHS: readonly { readonly range: CodePointRange; readonly mark: number }[] = [
  { range: [0, 0x7f], mark: 0 },
  { range: [0x80, 0x7ff], mark: 0xc0 },
  { range: [0x800, 0xffff], mark: 0xe0 },
  { range: [0x10000, 0x10ffff], mark: 0xf0 },
];

/** A continuation byte is this plus six bits. */
const CONTINUATION = 0x80;

/** The graph of a set that is not empty. */
export function utf8Graph(points: CodePoints): Utf8Node {
  const tails = new Map<string, Utf8Node>();
  const edges = LENGTHS.flatMap(({ range, mark }, left) =>
    edgesOf(intersectSets(points, [range]), { left, mark, tails }),
  );
  return { edges };
}

interface Rest {
  /** Continuation bytes behind this one. */
  readonly left: number;
  readonly mark: number;
  readonly tails: Map<string, Utf8Node>;
}

/** @param values What this byte and those behind it still have to say, six bits for each behind it. */
function edgesOf(values: CodePoints, { left, mark, tails }: Rest): Utf8Edge[] {
  if (left === 0) {
    return values.map(([first, last]) => ({
      first: mark + first,
      last: mark + last,
      next: undefined,
    }));
  }
  const shift = 6 * left;
  const restsOf = new Map<number, CodePointRange[]>();
  for (const [first, last] of values) {
    for (let digit = first >> shift; digit <= last >> shift; digit++) {
      const start = digit << shift;
      const rest: CodePointRange = [
        Math.max(first - start, 0),
        Math.min(last - start, (1 << shift) - 1),
      ];
      const rests = restsOf.get(digit);
      if (rests === undefined) restsOf.set(digit, [rest]);
      else rests.push(rest);
    }
  }
  const edges: { first: number; last: number; next: Utf8Node }[] = [];
  for (const [digit, rests] of restsOf) {
    const next = tailOf(rests, left - 1, tails);
    const previous = edges.at(-1);
    if (previous?.next === next && previous.last === mark + digit - 1) previous.last += 1;
    else edges.push({ first: mark + digit, last: mark + digit, next });
  }
  return edges;
}

function tailOf(values: CodePoints, left: number, tails: Map<string, Utf8Node>): Utf8Node {
  const key = `${left}:${values.join(";")}`;
  let node = tails.get(key);
  if (node === undefined) {
    node = { edges: edgesOf(values, { left, mark: CONTINUATION, tails }) };
    tails.set(key, node);
  }
  return node;
}
