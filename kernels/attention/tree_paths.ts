/**
 * How a row of a draft tree says which entries of its sequence it sees.
 *
 * Node n of a tree has entry `base + n` of its sequence, whatever its depth. A row sees the entries
 * in front of the tree and those of the nodes from the root to itself, in this order: the keys of a
 * sequence that is the row's path, so that splits, tiles and sums are those of plain decoding. Where
 * rows may be of trees, word 3 of a row is the word of `pageTables` where its path stands:
 *
 * | word | meaning |
 * |---|---|
 * | 0 | word of `pageTables` where its sequence's page numbers start |
 * | 1 | entries in front of the tree; `NO_TREE` for a row of none |
 * | 2 to 6 | nodes from the root to the row, a byte each, lowest first |
 * | 7 | 0 |
 *
 * @module
 */

import { KernelError } from "../../src/errors.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";

/** Words of a path. */
export const PATH_WORDS = 8;
/** Nodes of a tree at most, the root among them: a path has a byte for each node's number. */
export const MAX_TREE_NODES = 64;
/** Edges from the root to a node at most. */
export const MAX_TREE_DEPTH = 16;
/** In front of no tree there are more entries than any sequence has. */
export const NO_TREE = 0xffffffff;

const NODES_AT = 2;
const NO_NODES: readonly number[] = [];

/** Where a row's entries are. */
export interface TreePath {
  /** Word of `pageTables` where its sequence's page numbers start. */
  readonly firstPage: number;
  /** Entries in front of the tree; `NO_TREE` for a row of none. */
  readonly base: number;
  /** Node numbers from the root to the row, `MAX_TREE_DEPTH + 1` at most. */
  readonly nodes?: readonly number[];
}

/** Writes the path that begins at word `at`. */
export function writePath(
  words: Uint32Array,
  at: number,
  { firstPage, base, nodes = NO_NODES }: TreePath,
): void {
  words.fill(0, at, at + PATH_WORDS);
  words[at] = firstPage;
  words[at + 1] = base;
  for (let depth = 0; depth < nodes.length; depth++) {
    words[at + NODES_AT + (depth >> 2)]! |= nodes[depth]! << (8 * (depth & 3));
  }
}

/** @throws {KernelError} when rows of draft trees, which see different keys, are to share reads. */
export function requireNoGroups(
  kernel: string,
  options: { readonly followsPaths?: boolean | undefined; readonly groups?: Tensor | undefined },
): void {
  if (options.followsPaths === true && options.groups !== undefined) {
    throw new KernelError(kernel, "rows that follow paths are not grouped");
  }
}
