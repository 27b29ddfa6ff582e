/**
 * The rule of coins, as the reference of the kernel has it: the golden cases, and that what it gives
 * has the target's distribution, which a chi-square test of pairs of tokens tells from wrong rules.
 */

import { describe, expect, test } from "vitest";
import { type Thresholds, toss } from "../../kernels/sampling/coins/verify_reference.ts";
import { chainTree, type DraftTree, linkTree, NO_NODE } from "../../src/speculation/draft_tree.ts";
import {
  drawn,
  LIKELY,
  pairModel,
  strangeness,
  VOCABULARY,
  WRONG,
} from "../support/reference/token_pairs.ts";
import { seeded } from "../support/seeded.ts";
import { hasSharedData, skipNote } from "../text/shared_data.ts";
import { goldenTrees } from "./draft_trees.ts";

const EXACT: Thresholds = { single: 1, acc: 1 };

/** A tree, and what its nodes are verified by. */
interface Verification {
  /** By node. */
  readonly target: readonly ArrayLike<number>[];
  readonly coins: ArrayLike<number>;
  readonly finalCoin: number;
  readonly thresholds: Thresholds;
}

/** Goes from the root to the child that each toss accepts. */
function acceptByCoins(tree: DraftTree, given: Verification) {
  const nodes = [0];
  const output: number[] = [];
  for (;;) {
    const node = nodes.at(-1)!;
    const children: number[] = [];
    for (let child = tree.firstChild[node]!; child !== NO_NODE; child = tree.nextSibling[child]!) {
      children.push(child);
    }
    const { token, place } = toss({
      target: given.target[node]!,
      drafts: children.map((child) => tree.tokens[child]!),
      coin: given.coins[node]!,
      rest: given.finalCoin,
      thresholds: given.thresholds,
    });
    output.push(token);
    if (place === -1) return { nodes, output };
    nodes.push(children[place]!);
  }
}

describe.skipIf(!hasSharedData)(`golden samplings${skipNote}`, () => {
  const cases = hasSharedData ? goldenTrees().sampling : [];
  test.each(cases)("$name", (given) => {
    const tree = linkTree(given);
    expect(Array.from(tree.firstChild)).toEqual(given.next_token);
    expect(Array.from(tree.nextSibling)).toEqual(given.next_sibling);
    const { nodes, output } = acceptByCoins(tree, {
      target: given.target_probs,
      coins: given.coins,
      finalCoin: given.final_coin,
      thresholds: { single: given.threshold_single, acc: given.threshold_acc },
    });
    expect({ nodes, output }).toEqual({
      nodes: given.expect.accepted_nodes,
      output: given.expect.output,
    });
  });
});

describe("the ends of coins", () => {
  const tokenOf = (target: number[], coin: number, rest = 0.5, thresholds = EXACT) =>
    toss({ target, drafts: [1, 2], coin, rest, thresholds }).token;

  test("a coin of 0 does not accept what the target never gives", () => {
    expect(tokenOf([0, 0, 0.25, 0.75], 0)).toBe(2);
    expect(tokenOf([0.5, 0, 0, 0.5], 0, 0)).toBe(0);
    expect(tokenOf([0, 0, 0, 1], 0, 0)).toBe(3);
  });

  test("a coin at the end of a share falls into the next one", () => {
    expect(tokenOf([0, 0.25, 0.25, 0.5], 0.25)).toBe(2);
    expect(tokenOf([0, 0.25, 0.25, 0.5], 0.5)).toBe(3);
  });

  test("where rounding leaves nothing, the answer is a token that the target gives", () => {
    expect(tokenOf([0, 0.5, 0.4999999, 0], 0.99999999)).toBe(1);
    expect(tokenOf([0, 0, 0.4, 0.6], 0.5, 1 - 2 ** -53)).toBe(3);
  });

  test("thresholds of 0 accept the first draft that the target may give", () => {
    expect(tokenOf([0.9, 0.05, 0.05, 0], 0.99, 0.5, { single: 1, acc: 0 })).toBe(1);
    expect(tokenOf([1, 0, 0, 0], 0.99, 0.5, { single: 0, acc: 1 })).toBe(1);
    // The divisor is 1e-9 at least.
    expect(tokenOf([1, 1e-10, 0, 0], 0.5, 0.5, { single: 1, acc: 0 })).toBe(0);
  });

  test("no threshold accepts what is forbidden", () => {
    const given = { target: [0.5, 0, 0.5], drafts: [1, 2], coin: 0.9, rest: 0 };
    const thresholds = { single: 0, acc: 0 };
    expect(toss({ ...given, thresholds }).token).toBe(1);
    expect(toss({ ...given, thresholds, forbidden: new Set([1]) }).token).toBe(2);
    expect(toss({ ...given, thresholds, forbidden: new Set([1, 2]) }).token).toBe(0);
  });
});

const RUNS = 60_000;

function strangenessOf(tree: DraftTree, seed: number, thresholds = EXACT): number {
  const model = pairModel(seed);
  const random = seeded(seed + 100);
  const { first, second } = model;
  const target = Array.from(tree.tokens, (token, node) => (node === 0 ? first : second[token]!));
  const counts = new Float64Array(VOCABULARY ** 2);
  for (let run = 0; run < RUNS; run++) {
    const coins = target.map(() => random());
    const { output } = acceptByCoins(tree, { target, coins, finalCoin: random(), thresholds });
    const [a, b = drawn(second[a!]!, random())] = output;
    counts[a! * VOCABULARY + b]! += 1;
  }
  return strangeness(model, counts);
}

describe("the output has the target's distribution", () => {
  const CHAIN = chainTree(0, [2, 4]);
  const FAN = linkTree({ tokens: [0, 3, 1, 5], parents: [-1, 0, 0, 0] });
  const TREE = linkTree({ tokens: [0, 2, 4, 1, 3, 2, 0], parents: [-1, 0, 0, 1, 1, 2, 2] });
  const shapes = { chain: CHAIN, fan: FAN, tree: TREE };

  test.each(Object.entries(shapes))("after a %s", (_, tree) => {
    for (const seed of [1, 2, 3]) expect(Math.abs(strangenessOf(tree, seed))).toBeLessThan(LIKELY);
  });

  // Siblings with one token are refused where trees are made, so this one is put there afterwards.
  const REPEATED = { ...TREE, tokens: Uint32Array.from([0, 2, 2, 1, 3, 2, 0]) };

  test.each([
    ["a divisor of 0.7", TREE, { single: 1, acc: 0.7 }],
    ["a single probability of 0.1", TREE, { single: 0.1, acc: 1 }],
    ["a repeated sibling", REPEATED, EXACT],
  ])("the test tells %s", (_, tree, thresholds) => {
    for (const seed of [1, 2, 3]) {
      expect(strangenessOf(tree, seed, thresholds)).toBeGreaterThan(WRONG);
    }
  });
});
