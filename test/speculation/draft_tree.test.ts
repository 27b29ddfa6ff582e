import { describe, expect, test } from "vitest";
import { chainTree, type DraftTree, linkTree } from "../../src/speculation/draft_tree.ts";
import { DraftTreeShape } from "../../src/speculation/draft_tree_shape.ts";
import { acceptDrawn, acceptedOfChain } from "../../src/speculation/verify.ts";
import { seeded } from "../support/seeded.ts";
import { hasSharedData, skipNote } from "../text/shared_data.ts";
import { addStep, draftPool, selectCandidates, treeOfCandidates } from "./draft_candidates.ts";
import { goldenTrees, type TreeCase, WORKED } from "./draft_trees.ts";

const GOLDEN = hasSharedData ? goldenTrees() : undefined;

function grow(given: TreeCase) {
  const shape = new DraftTreeShape({
    steps: given.num_steps,
    topk: given.topk,
    draftTokens: given.num_draft_tokens,
  });
  const pool = draftPool(shape);
  const beams: Uint32Array[] = [];
  given.steps.forEach(({ p, ids }, i) => {
    beams.push(addStep(pool, i, { probabilities: p.flat(), tokens: ids.flat() }, beams.at(-1)));
  });
  const selected = selectCandidates(pool);
  return { pool, beams, selected, tree: treeOfCandidates(pool, given.verified_id, selected) };
}

/** What a node sees of the tree, as the golden cases write it. */
function maskRow({ paths, height, tokens }: DraftTree, node: number): string {
  const seen = paths.subarray(node * (height + 1), (node + 1) * (height + 1));
  return Array.from(tokens, (_, other) => (seen.includes(other) ? "1" : "0")).join("");
}

describe.each([WORKED, ...(GOLDEN?.trees ?? [])])(`the tree $name${skipNote}`, (given) => {
  const { pool, beams, selected, tree } = grow(given);
  const { expect: wanted } = given;

  test("candidates: scores, beams, selection", () => {
    // Probabilities are written with few digits, so a product may be its f32 neighbour.
    wanted.pool_scores.forEach((score, id) => {
      expect(Math.abs(pool.scores[id]! - score)).toBeLessThanOrEqual(score * 2 ** -23);
    });
    expect(beams.map((step) => Array.from(step))).toEqual(wanted.beams);
    expect(Array.from(selected)).toEqual(wanted.selected);
  });

  test("nodes: tokens, parents, depths, links, paths", () => {
    expect(Array.from(tree.tokens)).toEqual(wanted.tokens);
    expect(Array.from(tree.parents)).toEqual(wanted.parents);
    expect(Array.from(tree.depths)).toEqual(wanted.depths);
    expect(Array.from(tree.depths, (depth) => depth + given.seq_len)).toEqual(wanted.positions);
    expect(Array.from(tree.firstChild)).toEqual(wanted.next_token);
    expect(Array.from(tree.nextSibling)).toEqual(wanted.next_sibling);
    expect(wanted.mask.map((_, node) => maskRow(tree, node))).toEqual(wanted.mask);
  });

  test("drawn tokens are followed down the tree", () => {
    for (const { note, target, accepted_nodes, output, num_accepted_drafts } of given.greedy) {
      const verified = acceptDrawn(tree, target);
      expect(verified, note).toEqual({ nodes: accepted_nodes, output });
      expect(verified.output.length - 1).toBe(num_accepted_drafts);
    }
  });
});

test("random candidates, with ties and certainties, give no node without its parent", () => {
  const random = seeded(5);
  const whole = (most: number) => 1 + Math.floor(random() * most);
  for (let round = 0; round < 100; round++) {
    const [steps, topk] = [whole(5), whole(4)];
    const poolSize = topk + (steps - 1) * topk ** 2;
    const shape = new DraftTreeShape({ steps, topk, draftTokens: 1 + whole(poolSize) });
    const pool = draftPool(shape);
    let beams: Uint32Array | undefined;
    for (let i = 0; i < steps; i++) {
      const count = i === 0 ? topk : topk ** 2;
      const tokens = Array.from({ length: count }, (_, k) => k);
      // Not probabilities alone: what a broken draft gives must not make a tree that cannot be.
      const values = [1, 1, 0.5, 0.25, 0, 1.5, Number.NaN, random()];
      const probabilities = tokens.map(() => values[Math.floor(random() * values.length)]!);
      beams = addStep(pool, i, { probabilities, tokens }, beams);
      expect(new Set(beams).size).toBe(topk);
    }
    const selected = selectCandidates(pool);
    const tree = treeOfCandidates(pool, 99, selected);
    expect(tree.tokens.length).toBe(shape.draftTokens);
    const left = Array.from(pool.scores).filter((_, id) => !selected.includes(id));
    const least = Math.min(...Array.from(selected, (id) => pool.scores[id]!));
    expect(left.every((score) => score <= least)).toBe(true);
  }
});

describe("trees that cannot be", () => {
  test("siblings with one token", () => {
    const nodes = { tokens: [1, 5, 6, 5], parents: [-1, 0, 0, 0] };
    expect(() => linkTree(nodes)).toThrow(
      "Cannot use a tree of drafts: nodes 1 and 3 are children of node 0 with one token",
    );
    // Cousins may have one.
    expect(linkTree({ ...nodes, parents: [-1, 0, 0, 1] }).height).toBe(2);
  });

  test("parents behind their children, and none", () => {
    expect(() => linkTree({ tokens: [1, 2, 3], parents: [-1, 2, 0] })).toThrow(
      "Cannot use a tree of drafts: node 1 has the parent 2, which does not come before it",
    );
    expect(() => linkTree({ tokens: [1, 2], parents: [-1, -1] })).toThrow("has the parent -1");
    expect(() => linkTree({ tokens: [1], parents: [0] })).toThrow("its root has the parent 0");
    expect(() => linkTree({ tokens: [], parents: [] })).toThrow(
      "its root has the parent undefined",
    );
    expect(() => linkTree({ tokens: [1, 2], parents: [-1] })).toThrow("2 tokens and 1 parents");
  });

  test("a step of another size than the shape's", () => {
    const pool = draftPool(new DraftTreeShape({ steps: 2, topk: 2, draftTokens: 3 }));
    const step = { probabilities: [0.5, 0.5], tokens: [1, 2] };
    const beams = addStep(pool, 0, step);
    expect(() => addStep(pool, 1, step, beams)).toThrow("2 tokens for 2 beams, where 4 for 2 are");
    expect(() => addStep(pool, 0, step, beams)).toThrow("where 2 for 0 are due");
  });
});

describe("shapes", () => {
  test.each([
    [{ steps: 0, topk: 1, draftTokens: 2 }, "speculation.numSteps 0: it must be a whole number"],
    [{ steps: 65, topk: 1, draftTokens: 2 }, "speculation.numSteps 65: it must be a whole number"],
    [{ steps: 1, topk: 0, draftTokens: 2 }, "speculation.eagleTopk 0: it must be a whole number"],
    [{ steps: 1, topk: 65, draftTokens: 2 }, "speculation.eagleTopk 65: it must be a whole number"],
    [{ steps: 1, topk: 1, draftTokens: 1 }, "speculation.numDraftTokens 1: it must be a whole"],
    [{ steps: 9, topk: 9, draftTokens: 257 }, "speculation.numDraftTokens 257: it must be a whole"],
    [{ steps: 1.5, topk: 1, draftTokens: 2 }, "speculation.numSteps 1.5: it must be a whole"],
  ])("%o is refused", (numbers, message) => {
    expect(() => new DraftTreeShape(numbers)).toThrow(`Cannot use ${message}`);
  });

  const SMALL = [
    ...[{ topk: 4, num_steps: 1, num_draft_tokens: 8, largest_num_draft_tokens: 5 }],
    ...(GOLDEN?.errors ?? []),
  ];
  test.each(SMALL)(
    "$num_draft_tokens rows of $num_steps steps of top-k $topk are too many",
    (given) => {
      const { topk, num_steps: steps, largest_num_draft_tokens: most } = given;
      const shape = (draftTokens: number) => new DraftTreeShape({ steps, topk, draftTokens });
      expect(shape(most).poolSize).toBe(most - 1);
      const message = `give ${most - 1} candidates, which is enough for ${most} at most`;
      expect(() => shape(given.num_draft_tokens)).toThrow(message);
      expect(() => shape(most + 1)).toThrow(message);
    },
  );
});

describe("chains", () => {
  test("a chain is a tree whose nodes have one child", () => {
    const tree = chainTree(7, [3, 3, 5]);
    expect(Array.from(tree.parents)).toEqual([-1, 0, 1, 2]);
    expect(Array.from(tree.firstChild)).toEqual([1, 2, 3, -1]);
    expect(tree.height).toBe(3);
    expect(Array.from(tree.paths.subarray(8, 12))).toEqual([0, 1, 2, -1]);
  });

  test("its verification counts what a tree's accepts", () => {
    const random = seeded(11);
    for (let round = 0; round < 200; round++) {
      const draw = () => Math.floor(random() * 2);
      const drafts = Array.from({ length: Math.floor(random() * 6) }, draw);
      const drawn = Array.from({ length: drafts.length + 1 }, draw);
      const count = acceptedOfChain(drafts, drawn);
      const { nodes, output } = acceptDrawn(chainTree(9, drafts), drawn);
      expect(nodes.length - 1).toBe(count);
      expect(output).toEqual([...drafts.slice(0, count), drawn[count]]);
    }
  });
});
