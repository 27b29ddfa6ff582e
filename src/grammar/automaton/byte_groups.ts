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

/** Numbers that one buffer has room for: one for each set of nodes takes longer to make than to fill. */
const BUFFER_NUMBERS = 16_384;

let buffer = new Uint16Array(0);
let taken = 0;

function newNumbers(count: number): Uint16Array {
  if (taken + count > buffer.length) {
    buffer = new Uint16Array(BUFFER_NUMBERS);
    taken = 0;
  }
  taken += count;
  return buffer.subarray(taken - count, taken);
}

/** Of the set of nodes that is looked at: group of each class. */
const groupOf = new Uint32Array(256);
/** By first and last byte of an edge, the last set of nodes that had one. */
const seenIn = new Uint32Array(65_536);
let sets = 0;

/** Splits the classes of bytes by the edges that have them. */
export function byteGroups(
  edgesOfNodes: readonly PackedEdges[],
  { classOf, classes }: { readonly classOf: Uint8Array; readonly classes: Uint8Array },
): ByteGroups {
  const count = classes.length;
  // Splits may be many more than classes: there are as many as edges.
  groupOf.fill(0, 0, count);
  /** For each group what the last edge that split it made of it, and which edge that was. */
  const madeOf = [0];
  const madeBy = [0];
  sets = sets === 0xffff_ffff ? 1 : sets + 1;
  let edge = 0;
  for (const edges of edgesOfNodes) {
    for (let i = 0; i < edges.length; i += 2) {
      const range = edges[i]!;
      // A second edge by the same bytes tells none of them apart.
      if (seenIn[range] === sets) continue;
      seenIn[range] = sets;
      edge += 1;
      // Classes of an edge that were alike so far stay alike.
      const last = classOf[range & 0xff]!;
      for (let byteClass = classOf[range >>> 8]!; byteClass <= last; byteClass++) {
        const group = groupOf[byteClass]!;
        if (madeBy[group] !== edge) {
          madeBy[group] = edge;
          madeOf[group] = madeOf.push(0) - 1;
          madeBy.push(0);
        }
        groupOf[byteClass] = madeOf[group]!;
      }
    }
  }
  return numbered(count, madeOf.fill(0));
}

/**
 * Groups that were split up to the last class are numbers without classes.
 *
 * @param numbers As many zeros as there were groups.
 */
function numbered(count: number, numbers: number[]): ByteGroups {
  const found = newNumbers(count);
  let size = 1;
  for (let byteClass = 0; byteClass < count; byteClass++) {
    const group = groupOf[byteClass]!;
    if (group !== 0 && numbers[group] === 0) numbers[group] = size++;
    found[byteClass] = numbers[group]!;
  }
  return { groupOf: found, size };
}
