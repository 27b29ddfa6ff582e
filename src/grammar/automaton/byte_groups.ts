/**
 * Which bytes lead alike from a set of nodes, so that one search serves for all of them.
 *
 * @module
 */
import type { PackedEdges } from "./node_views.ts";

export interface ByteGroups {
  /** Number of the group of each class of bytes; 0 for those that lead nowhere. */
  readonly groupOf: Uint16Array;
  /** Groups, the one that leads nowhere included. */
  readonly size: number;
}

/** Splits the classes of bytes by the edges that have them. */
export function byteGroups(
  edgesOfNodes: readonly PackedEdges[],
  { classOf, classes }: { readonly classOf: Uint8Array; readonly classes: Uint8Array },
): ByteGroups {
  // Splits may be many more than classes: there are as many as edges.
  const groupOf = new Uint32Array(classes.length);
  /** For each group the one that it was before the last edge; those of one edge follow each other. */
  const before = [0];
  for (const edges of edgesOfNodes) {
    for (let i = 0; i < edges.length; i += 2) {
      split(groupOf, before, [classOf[edges[i]! >>> 8]!, classOf[edges[i]! & 0xff]!]);
    }
  }
  // Groups that were split up to the last class are numbers without classes.
  const numbers = new Map([[0, 0]]);
  groupOf.forEach((group, byteClass) => {
    const number = numbers.get(group) ?? numbers.size;
    numbers.set(group, number);
    groupOf[byteClass] = number;
  });
  return { groupOf: Uint16Array.from(groupOf), size: numbers.size };
}

/** Classes of an edge that were alike so far stay alike. */
function split(
  groupOf: Uint32Array,
  before: number[],
  [first, last]: readonly [number, number],
): void {
  const begin = before.length;
  for (let byteClass = first; byteClass <= last; byteClass++) {
    const group = groupOf[byteClass]!;
    let number = begin;
    while (number < before.length && before[number] !== group) number += 1;
    if (number === before.length) before.push(group);
    groupOf[byteClass] = number;
  }
}
