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
  /** For each group what the last edge that split it made of it, and which edge that was. */
  const madeOf = [0];
  const madeBy = [0];
  /** A second edge by the same bytes tells none of them apart. */
  const seen = new Set<number>();
  for (const edges of edgesOfNodes) {
    for (let i = 0; i < edges.length; i += 2) {
      const range = edges[i]!;
      if (seen.has(range)) continue;
      seen.add(range);
      // Classes of an edge that were alike so far stay alike.
      const last = classOf[range & 0xff]!;
      for (let byteClass = classOf[range >>> 8]!; byteClass <= last; byteClass++) {
        const group = groupOf[byteClass]!;
        if (madeBy[group] !== seen.size) {
          madeBy[group] = seen.size;
          madeOf[group] = madeOf.push(0) - 1;
          madeBy.push(0);
        }
        groupOf[byteClass] = madeOf[group]!;
      }
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
