/**
 * Which drafts are accepted: by the plain sampler's tokens, or by coins.
 *
 * The plain sampler draws a token for every row from (seed, position), and a draft is accepted where
 * it is the token that was drawn, so answers are those without drafts. Coins accept by thresholds
 * too; below 1 they change answers.
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

/** From 0 to 1; with both at 1 the output has the target's distribution. */
export interface AcceptThresholds {
  /** A draft is accepted where the target gives it this probability. */
  readonly single: number;
  /** What a coin is compared with is divided by this. */
  readonly acc: number;
}

/** The least divisor. */
const LEAST_ACC = 1e-9;

export interface CoinVerification {
  /** `[nodes][vocabulary]`: the distribution after each node, filters and temperature applied. */
  readonly target: readonly ArrayLike<number>[];
  /** `[nodes]`: a number in [0, 1) for the children of each node, none used twice. */
  readonly coins: ArrayLike<number>;
  /** In [0, 1), for the last token. */
  readonly finalCoin: number;
  readonly thresholds: AcceptThresholds;
}

/**
 * Goes from the root to the child whose share of the target's distribution a coin falls into. Where
 * it falls into none, the last token is drawn from what the refused children leave.
 */
export function acceptByCoins(tree: DraftTree, given: CoinVerification): Verified {
  const nodes = [0];
  const output: number[] = [];
  for (;;) {
    const node = nodes.at(-1)!;
    const { accepted, refused } = tossFor(tree, node, given);
    if (accepted === NO_NODE) {
      output.push(drawWithout(given.target[node]!, refused, given.finalCoin));
      return { nodes, output };
    }
    nodes.push(accepted);
    output.push(tree.tokens[accepted]!);
  }
}

/** The child that a node's coin accepts, and the tokens of those that it has refused. */
function tossFor(tree: DraftTree, node: number, given: CoinVerification) {
  const { target, coins, thresholds } = given;
  const refused = new Set<number>();
  let share = 0;
  let child = tree.firstChild[node]!;
  for (; child !== NO_NODE; child = tree.nextSibling[child]!) {
    const token = tree.tokens[child]!;
    const probability = target[node]![token]!;
    share += probability;
    // Below, not at: a coin of 0 must not accept what the target never gives.
    const isHit = coins[node]! < share / Math.max(thresholds.acc, LEAST_ACC);
    if (isHit || probability >= thresholds.single) break;
    refused.add(token);
  }
  return { accepted: child, refused };
}

/** A token of a distribution without some of its tokens, in the order of ids. */
function drawWithout(target: ArrayLike<number>, refused: ReadonlySet<number>, coin: number) {
  let mass = 0;
  for (let token = 0; token < target.length; token++) {
    if (!refused.has(token)) mass += target[token]!;
  }
  // The refused tokens are all that there is where a sum of shares was rounded down to below a coin.
  if (!(mass > 0)) return mostLikely(target);
  let left = coin * mass;
  let last = 0;
  for (let token = 0; token < target.length; token++) {
    if (refused.has(token) || !(target[token]! > 0)) continue;
    last = token;
    left -= target[token]!;
    if (left < 0) break;
  }
  return last;
}

function mostLikely(target: ArrayLike<number>): number {
  let best = 0;
  for (let token = 1; token < target.length; token++) {
    if (target[token]! > target[best]!) best = token;
  }
  return best;
}
