/**
 * The nodes of a token trie in depth-first order, as flat arrays.
 *
 * @module
 */

export interface TrieNodes {
  /** Nodes. */
  readonly size: number;
  /** The byte that leads to each node. */
  readonly bytes: Uint8Array;
  /** Bytes on the way to each node, itself included: from 1. */
  readonly depths: Uint32Array;
  /** First node behind each node's subtree. */
  readonly ends: Uint32Array;
  /** Token that ends at each node, or -1; from -2 down an index into `several`. */
  readonly tokens: Int32Array;
  /** Lists of tokens with the same bytes: list `-2 - i` where `tokens` says `i`. */
  readonly several: readonly (readonly number[])[];
  readonly maxDepth: number;
}

/** What the first list of `several` is called in `tokens`. */
export const SEVERAL = -2;
