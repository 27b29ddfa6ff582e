/**
 * The prefix cache as plain data: what a page draws that shows it.
 *
 * @module
 */
import type { RadixCache, RadixNode } from "../../cache/radix_cache.ts";
import { InvalidRequestError } from "../../errors.ts";
import type { CacheTree, CacheTreeNode, CacheTreeOptions } from "../../prefix_cache.ts";

const MAX_NODES = 256;
/** Tokens that a node's label is the text of, and characters of it. */
const LABEL_TOKENS = 16;
const LABEL_CHARACTERS = 48;

export interface DrawOptions extends CacheTreeOptions {
  /** Ids at or above it are contents that have no text. */
  readonly vocabularySize: number;
  decode(tokens: readonly number[]): string;
}

/**
 * @param radix Without one the tree is empty.
 * @throws {InvalidRequestError} when `maxNodes` is no count.
 */
export function drawCacheTree(
  radix: RadixCache | undefined,
  { maxNodes = MAX_NODES, ...text }: DrawOptions,
): CacheTree {
  if (!(Number.isSafeInteger(maxNodes) && maxNodes >= 0)) {
    throw new InvalidRequestError(
      `Cannot use maxNodes ${maxNodes}: it must be a whole number of at least 0`,
      "maxNodes",
    );
  }
  const nodes: CacheTreeNode[] = [];
  const indices = new Map<RadixNode, number>();
  const partitions = new Map<RadixNode, number>();
  for (const node of radix?.nodes() ?? []) {
    if (nodes.length === maxNodes) return { pageSize: radix!.pageSize, nodes, isComplete: false };
    const parent = indices.get(node.parent!);
    let partition = parent === undefined ? partitions.get(node.parent!) : nodes[parent]!.partition;
    if (partition === undefined) {
      partition = partitions.size;
      partitions.set(node.parent!, partition);
    }
    indices.set(node, nodes.length);
    nodes.push({
      parent: parent ?? -1,
      partition,
      tokens: node.pageCount * node.pageSize,
      pages: node.pageCount,
      holders: node.locks,
      label: label(node, text),
    });
  }
  return { pageSize: radix?.pageSize ?? 1, nodes, isComplete: true };
}

function label(
  node: RadixNode,
  { vocabularySize, decode }: Pick<DrawOptions, "vocabularySize" | "decode">,
): string {
  const tokens = node.tokens(LABEL_TOKENS).filter((token) => token < vocabularySize);
  return [...decode(tokens)].slice(0, LABEL_CHARACTERS).join("");
}
