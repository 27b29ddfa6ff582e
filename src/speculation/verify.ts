/**
 * Which drafts are accepted: those that are the tokens that the sampler gives in their places.
 *
 * The sampler draws a token for every row from (seed, position), so answers are those without drafts.
 * By thresholds below 1 it gives some rows a draft in place of what it draws (kernels/sampling/coins:
 * verify.wgsl), which changes answers.
 *
 * @module
 */
import { type DraftTree, NO_NODE } from "./draft_tree.ts";

export interface Verified {
  /** The accepted path: nodes from the root on. Their rows of the cache stay. */
  readonly nodes: readonly number[];
  /** Tokens that the sequence gains: the accepted drafts, and one that the target gives behind them. */
  readonly output: readonly number[];
}

/**
 * Follows the tokens that the target draws down the tree.
 *
 * @param drawn `[nodes]`: the token after each node, drawn or best.
 */
export function acceptDrawn(tree: DraftTree, drawn: ArrayLike<number>): Verified {
  const nodes = [0];
  const output: number[] = [];
  for (;;) {
    const token = drawn[nodes.at(-1)!]!;
    output.push(token);
    const child = childWith(tree, nodes.at(-1)!, token);
    if (child === NO_NODE) return { nodes, output };
    nodes.push(child);
  }
}

/**
 * How many drafts of a chain are accepted; the sequence gains these and `drawn` behind them.
 *
 * @param drawn `[drafts + 1]`: the token after the newest token, and after each draft.
 */
export function acceptedOfChain(drafts: ArrayLike<number>, drawn: ArrayLike<number>): number {
  let count = 0;
  while (count < drafts.length && drafts[count] === drawn[count]) count++;
  return count;
}

function childWith({ firstChild, nextSibling, tokens }: DraftTree, node: number, token: number) {
  let child = firstChild[node]!;
  while (child !== NO_NODE && tokens[child] !== token) child = nextSibling[child]!;
  return child;
}

/** From 0 to 1; with both at 1 a draft is accepted where it is drawn, and only there. */
export interface AcceptThresholds {
  /** Target probability from which a draft is accepted whatever is drawn. */
  readonly single: number;
  /** Divides the share of the target's tokens that a coin has to fall into. */
  readonly acc: number;
}
