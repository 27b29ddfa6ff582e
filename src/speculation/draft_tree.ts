/**
 * Drafts as a tree: each node is a token after the tokens on the way to it from the root, which is
 * the newest token of the sequence. A chain is a tree whose nodes have one child.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";

/** In places of a parent, a child, a sibling: there is none. */
export const NO_NODE = -1;

/** Nodes are rows of one forward pass, numbered so that parents come first; node 0 is the root. */
export interface DraftTree {
  /** `[nodes]` */
  readonly tokens: Uint32Array;
  /** `[nodes]` */
  readonly parents: Int32Array;
  /** `[nodes]`: the root's is 0. A node's position in the sequence is the root's, and its depth. */
  readonly depths: Uint32Array;
  /** `[nodes]` */
  readonly firstChild: Int32Array;
  /** `[nodes]`: children of one node follow each other in the order of their numbers. */
  readonly nextSibling: Int32Array;
  /** The deepest node's depth. */
  readonly height: number;
  /** `[nodes, height + 1]`: what a node sees of the tree, from the root to itself; then `NO_NODE`. */
  readonly paths: Int32Array;
}

/** The nodes as they are told to `linkTree`. */
export interface TreeNodes {
  /** `[nodes]`, the root's first. */
  readonly tokens: ArrayLike<number>;
  /** `[nodes]`: `NO_NODE` for the root, an earlier node for each other one. */
  readonly parents: ArrayLike<number>;
}

/**
 * The tree of nodes and their parents.
 *
 * @throws {InvalidRequestError} where a parent does not come before its child, or two children of a
 *   node have the same token: verification by coins would give that token more than its share.
 */
export function linkTree(nodes: TreeNodes): DraftTree {
  const tokens = Uint32Array.from(nodes.tokens);
  const parents = Int32Array.from(nodes.parents);
  const depths = new Uint32Array(tokens.length);
  const firstChild = new Int32Array(tokens.length).fill(NO_NODE);
  const nextSibling = new Int32Array(tokens.length).fill(NO_NODE);
  requireRoot(tokens, parents);
  let height = 0;
  for (let node = 1; node < tokens.length; node++) {
    const parent = parents[node]!;
    if (parent < 0 || parent >= node) {
      refuse(`node ${node} has the parent ${parent}, which does not come before it`);
    }
    depths[node] = depths[parent]! + 1;
    height = Math.max(height, depths[node]!);
    appendChild({ tokens, firstChild, nextSibling }, parent, node);
  }
  const paths = pathsOf(parents, depths, height);
  return { tokens, parents, depths, firstChild, nextSibling, height, paths };
}

/** The tree of drafts that follow each other. */
export function chainTree(root: number, drafts: ArrayLike<number>): DraftTree {
  const tokens = [root, ...Array.from(drafts)];
  return linkTree({ tokens, parents: tokens.map((_, node) => node - 1) });
}

function requireRoot(tokens: Uint32Array, parents: Int32Array): void {
  if (tokens.length !== parents.length) {
    refuse(`it has ${tokens.length} tokens and ${parents.length} parents`);
  }
  if (parents[0] !== NO_NODE) refuse(`its root has the parent ${parents[0]}`);
}

type Links = Pick<DraftTree, "tokens" | "firstChild" | "nextSibling">;

/** Puts a node behind the children that its parent has. */
function appendChild({ tokens, firstChild, nextSibling }: Links, parent: number, node: number) {
  let last = NO_NODE;
  for (let other = firstChild[parent]!; other !== NO_NODE; other = nextSibling[other]!) {
    if (tokens[other] === tokens[node]) {
      refuse(`nodes ${other} and ${node} are children of node ${parent} with one token`);
    }
    last = other;
  }
  if (last === NO_NODE) firstChild[parent] = node;
  else nextSibling[last] = node;
}

function pathsOf(parents: Int32Array, depths: Uint32Array, height: number): Int32Array {
  const width = height + 1;
  const paths = new Int32Array(parents.length * width).fill(NO_NODE);
  for (let node = 0; node < parents.length; node++) {
    const [above, depth] = [parents[node]! * width, depths[node]!];
    if (depth > 0) paths.copyWithin(node * width, above, above + depth);
    paths[node * width + depth] = node;
  }
  return paths;
}

function refuse(state: string): never {
  throw new InvalidRequestError(`Cannot use a tree of drafts: ${state}`);
}
