/**
 * A set of code points as the bytes of UTF-8.
 *
 * The result is a small graph: from its first node, each way through it spells one code point, and
 * every code point of the set is spelled exactly once, in its only valid form (RFC 3629). Nodes with
 * equal continuations are one node, and neighbouring bytes that lead to the same one are one edge.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import { type CodePointRange, type CodePoints, intersectSets, rangesKey } from "./code_points.ts";

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

/** Of each node that is looked for. */
const TAIL_EFFORT = 1;

/** By how many: any continuation bytes. */
const ANY_TAILS: Utf8Node[] = [];

function anyTail(left: number): Utf8Node {
  ANY_TAILS[left] ??= {
    edges: [
      {
        first: CONTINUATION,
        last: CONTINUATION + 0x3f,
        next: left === 0 ? undefined : anyTail(left - 1),
      },
    ],
  };
  return ANY_TAILS[left];
}

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
  const size = 1 << (6 * left);
  const edges: { first: number; last: number; next: Utf8Node }[] = [];
  const add = (first: number, last: number, next: Utf8Node): void => {
    const previous = edges.at(-1);
    if (previous?.next === next && previous.last === mark + first - 1) previous.last = mark + last;
    else edges.push({ first: mark + first, last: mark + last, next });
  };
  /** What is known of the values with this digit. */
  let [open, rests] = [0, [] as CodePointRange[]];
  const close = (): void => {
    if (rests.length > 0) add(open, open, tailOf(rests, left - 1, tails));
    rests = [];
  };
  for (const [first, last] of values) {
    for (let at = first; at <= last; ) {
      const digit = Math.floor(at / size);
      const start = digit * size;
      if (digit !== open) close();
      open = digit;
      if (at === start && last >= start + size - 1) {
        const beyond = Math.floor((last + 1) / size);
        add(digit, beyond - 1, anyTail(left - 1));
        at = beyond * size;
      } else {
        const end = Math.min(last, start + size - 1);
        rests.push([at - start, end - start]);
        at = end + 1;
      }
    }
  }
  close();
  return edges;
}

function tailOf(values: CodePoints, left: number, tails: Map<string, Utf8Node>): Utf8Node {
  spendEffort(TAIL_EFFORT);
  const key = rangesKey(left, values);
  let node = tails.get(key);
  if (node === undefined) {
    node = { edges: edgesOf(values, { left, mark: CONTINUATION, tails }) };
    tails.set(key, node);
  }
  return node;
}
