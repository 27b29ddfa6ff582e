/**
 * Verification by coins: the golden cases, and that the output has the target's distribution, which
 * a chi-square test of pairs of tokens tells from wrong rules.
 */

import { describe, expect, test } from "vitest";
import { chainTree, type DraftTree, linkTree } from "../../src/speculation/draft_tree.ts";
import { type AcceptThresholds, acceptByCoins } from "../../src/speculation/verify.ts";
import { seeded } from "../support/seeded.ts";
import { hasSharedData, skipNote } from "../text/shared_data.ts";
import { goldenTrees } from "./draft_trees.ts";

const EXACT: AcceptThresholds = { single: 1, acc: 1 };

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
  const toss = (target: number[], coin: number, finalCoin = 0.5, thresholds = EXACT) => {
    const tree = linkTree({ tokens: [0, 1, 2], parents: [-1, 0, 0] });
    const given = { target: [target, target, target], coins: [coin, 0.5, 0.5] };
    return acceptByCoins(tree, { ...given, finalCoin, thresholds }).output[0];
  };

  test("a coin of 0 does not accept what the target never gives", () => {
    expect(toss([0, 0, 0.25, 0.75], 0)).toBe(2);
    expect(toss([0.5, 0, 0, 0.5], 0, 0)).toBe(0);
    expect(toss([0, 0, 0, 1], 0, 0)).toBe(3);
  });

  test("a coin at the end of a share falls into the next one", () => {
    expect(toss([0, 0.25, 0.25, 0.5], 0.25)).toBe(2);
    expect(toss([0, 0.25, 0.25, 0.5], 0.5)).toBe(3);
  });

  test("where rounding leaves nothing, the answer is a token that the target gives", () => {
    expect(toss([0, 0.5, 0.4999999, 0], 0.99999999)).toBe(1);
    expect(toss([0, 0, 0.4, 0.6], 0.5, 1 - 2 ** -53)).toBe(3);
  });

  test("thresholds of 0 accept the first draft that the target may give", () => {
    expect(toss([0.9, 0.05, 0.05, 0], 0.99, 0.5, { single: 1, acc: 0 })).toBe(1);
    expect(toss([1, 0, 0, 0], 0.99, 0.5, { single: 0, acc: 1 })).toBe(1);
    // The divisor is 1e-9 at least.
    expect(toss([1, 1e-10, 0, 0], 0.5, 0.5, { single: 1, acc: 0 })).toBe(0);
  });
});

const VOCABULARY = 6;
const RUNS = 60_000;
/** Where the transformed sum of squares of a right rule stays, and what a wrong one exceeds. */
const LIKELY = 4;
const WRONG = 10;

/** Probabilities of six tokens, none of them small. (Dirichlet of 0.8, through gamma variates.) */
function dirichlet(random: () => number): number[] {
  const weights = Array.from({ length: VOCABULARY }, () => gamma(0.8, random));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  const raised = weights.map((weight) => weight / total + 0.02);
  const mass = raised.reduce((sum, weight) => sum + weight, 0);
  return raised.map((weight) => weight / mass);
}

/** Marsaglia and Tsang's method; below 1 by a variate of shape + 1 and a power of a uniform one. */
function gamma(shape: number, random: () => number): number {
  const d = shape + 1 - 1 / 3;
  for (;;) {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    const v = (1 + normal / Math.sqrt(9 * d)) ** 3;
    if (v <= 0) continue;
    if (Math.log(1 - random()) < normal ** 2 / 2 + d - d * v + d * Math.log(v)) {
      return d * v * random() ** (1 / shape);
    }
  }
}

function draw(probabilities: readonly number[], coin: number): number {
  let left = coin;
  for (let token = 0; token < probabilities.length; token++) {
    left -= probabilities[token]!;
    if (left < 0) return token;
  }
  return probabilities.length - 1;
}

/**
 * How unlikely the pairs of tokens are that verification gives, as a standard normal variate.
 *
 * (Wilson and Hilferty's cube root of a chi-square sum.)
 */
function strangeness(tree: DraftTree, seed: number, thresholds = EXACT): number {
  const random = seeded(seed);
  const first = dirichlet(random);
  const second = first.map(() => dirichlet(random));
  const after = (node: number) => (node === 0 ? first : second[tree.tokens[node]!]!);
  const target = Array.from(tree.tokens, (_, node) => after(node));
  const counts = new Float64Array(VOCABULARY ** 2);
  for (let run = 0; run < RUNS; run++) {
    const coins = target.map(() => random());
    const { output } = acceptByCoins(tree, { target, coins, finalCoin: random(), thresholds });
    const [a, b = draw(second[a!]!, random())] = output;
    counts[a! * VOCABULARY + b]! += 1;
  }
  let sum = 0;
  counts.forEach((count, pair) => {
    const a = Math.floor(pair / VOCABULARY);
    const wanted = RUNS * first[a]! * second[a]![pair % VOCABULARY]!;
    sum += (count - wanted) ** 2 / wanted;
  });
  const freedom = VOCABULARY ** 2 - 1;
  const spread = 2 / (9 * freedom);
  return (Math.cbrt(sum / freedom) - (1 - spread)) / Math.sqrt(spread);
}

describe("the output has the target's distribution", () => {
  const CHAIN = chainTree(0, [2, 4]);
  const FAN = linkTree({ tokens: [0, 3, 1, 5], parents: [-1, 0, 0, 0] });
  const TREE = linkTree({ tokens: [0, 2, 4, 1, 3, 2, 0], parents: [-1, 0, 0, 1, 1, 2, 2] });
  const shapes = { chain: CHAIN, fan: FAN, tree: TREE };

  test.each(Object.entries(shapes))("after a %s", (_, tree) => {
    for (const seed of [1, 2, 3]) expect(Math.abs(strangeness(tree, seed))).toBeLessThan(LIKELY);
  });

  // Siblings with one token are refused where trees are made, so this one is put there afterwards.
  const REPEATED = { ...TREE, tokens: Uint32Array.from([0, 2, 2, 1, 3, 2, 0]) };

  test.each([
    ["a divisor of 0.7", TREE, { single: 1, acc: 0.7 }],
    ["a single probability of 0.1", TREE, { single: 0.1, acc: 1 }],
    ["a repeated sibling", REPEATED, EXACT],
  ])("the test tells %s", (_, tree, thresholds) => {
    for (const seed of [1, 2, 3])
      expect(strangeness(tree, seed, thresholds)).toBeGreaterThan(WRONG);
  });
});
