/**
 * A draft tree: rows of one sequence that are verified in one batch, each of which sees its own path.
 *
 * Node 0 is the sequence's newest token, the others are drafted. Node n stands at the position of
 * the root plus its depth, and its cache entry at place `position + n` of the sequence, so that nodes
 * of one depth have entries of their own (kernels/attention/tree_paths.ts). Positions are in the
 * context, entries may lie behind it. Once a path is accepted, its entries are moved together: by the
 * step itself where it drafts, else by `EntryMover` of src/cache.
 *
 * @module
 */
import { MAX_TREE_DEPTH, MAX_TREE_NODES } from "../../kernels/attention/tree_paths.ts";
import { KernelError } from "../errors.ts";
import type { Batch, BatchSequence, DraftTree } from "./batch.ts";

export { MAX_TREE_DEPTH, MAX_TREE_NODES };

/**
 * The nodes from the root to each node, itself the last.
 *
 * @throws {KernelError} when it is no tree of these sizes.
 */
export function treePaths({ parents }: DraftTree, maxNodes = MAX_TREE_NODES): number[][] {
  if (parents.length > maxNodes) {
    throw treeError(`a tree of ${parents.length} nodes, and the batch is made for ${maxNodes}`);
  }
  const paths: number[][] = [];
  parents.forEach((parent, node) => {
    const isParent = node === 0 ? parent === -1 : paths[parent] !== undefined;
    if (!isParent) throw treeError(`node ${node} has the parent ${parent}`);
    const path = node === 0 ? [0] : [...paths[parent]!, node];
    if (path.length > MAX_TREE_DEPTH + 1) {
      throw treeError(`node ${node} has the depth ${path.length - 1}, more than ${MAX_TREE_DEPTH}`);
    }
    paths.push(path);
  });
  return paths;
}

/** Keys that the last of a sequence's rows sees at most, or the deepest of its tree. */
export function keysSeen({
  position,
  queryLength,
  tree,
  continues,
}: Pick<BatchSequence, "position" | "queryLength" | "tree" | "continues">): number {
  if (continues?.depth !== undefined) return position + continues.slack + continues.depth + 1;
  if (tree === undefined) return position + queryLength + (continues?.slack ?? 0);
  const depths = new Uint8Array(tree.parents.length);
  let deepest = 0;
  for (let node = 1; node < depths.length; node++) {
    depths[node] = depths[tree.parents[node]!]! + 1;
    deepest = Math.max(deepest, depths[node]!);
  }
  return position + deepest + 1;
}

/** Keys that the longest of a batch's generated sequences sees at most. */
export function longestOf({ sequences }: Pick<Batch, "sequences">): number {
  let longest = 1;
  for (const sequence of sequences) {
    if (sequence.phase !== "prefill") longest = Math.max(longest, keysSeen(sequence));
  }
  return longest;
}

/** Whether its rows follow paths of a tree, which the host or only the GPU knows. */
export const isTree = ({ tree, continues }: Pick<BatchSequence, "tree" | "continues">): boolean =>
  tree !== undefined || continues?.depth !== undefined;

const treeError = (problem: string) => new KernelError("draft tree", problem);
