/**
 * Drafts of a tree as a list: node 0 is the newest token of the sequence, node `i + 1` is draft `i`,
 * and parents come before their children. Drafts that follow each other are such a tree too.
 *
 * @module
 */

import { linkTree, NO_NODE } from "./draft_tree.ts";
import { acceptDrawn } from "./verify.ts";

export interface DraftNodes {
  readonly tokens: readonly number[];
  /** Of each draft the node that it follows. */
  readonly parents: readonly number[];
}

/** The parents of drafts that follow each other. */
export const chainParents = (count: number): number[] => Array.from({ length: count }, (_, i) => i);

/**
 * The drafts that are kept, without those behind one that is not.
 *
 * @param isKept Told a draft's number, and how many drafts there are up to it on its path.
 */
export function keepNodes(
  { tokens, parents }: DraftNodes,
  isKept: (draft: number, depth: number) => boolean,
): DraftNodes & { readonly kept: readonly number[] } {
  const kept: number[] = [];
  const depths = [0];
  const places = new Map([[0, 0]]);
  parents.forEach((parent, draft) => {
    const depth = depths[parent]! + 1;
    depths.push(depth);
    if (!places.has(parent) || !isKept(draft, depth)) return;
    kept.push(draft);
    places.set(draft + 1, kept.length);
  });
  return {
    kept,
    tokens: kept.map((draft) => tokens[draft]!),
    parents: kept.map((draft) => places.get(parents[draft]!)!),
  };
}

/** The nodes from node 0 to a node. */
export function pathTo(parents: readonly number[], node: number): number[] {
  const path = [node];
  while (path[0]! > 0) path.unshift(parents[path[0]! - 1]!);
  return path;
}

/**
 * The nodes that are accepted, from node 0 on: each is the token that was drawn at the one before it.
 *
 * @param drawn By node: the token behind it.
 */
export function acceptedPath(
  { tokens, parents }: DraftNodes,
  drawn: ArrayLike<number>,
): readonly number[] {
  const tree = linkTree({ tokens: [NO_NODE, ...tokens], parents: [NO_NODE, ...parents] });
  return acceptDrawn(tree, drawn).nodes;
}
