import { describe, expect, test } from "vitest";
import {
  acceptedPath,
  chainParents,
  keepNodes,
  pathTo,
} from "../../src/speculation/draft_nodes.ts";
import { acceptedOfChain } from "../../src/speculation/verify.ts";
import { seeded } from "../support/seeded.ts";
import { hasSharedData, skipNote } from "../text/shared_data.ts";
import { goldenTrees, WORKED } from "./draft_trees.ts";

const GOLDEN = hasSharedData ? goldenTrees() : undefined;

describe.each([WORKED, ...(GOLDEN?.trees ?? [])])(
  `drafts of the tree $name${skipNote}`,
  (given) => {
    const nodes = {
      tokens: given.expect.tokens.slice(1),
      parents: given.expect.parents.slice(1),
    };

    test("follow drawn tokens", () => {
      for (const { note, target, accepted_nodes: path, output } of given.greedy) {
        const got = acceptedPath(nodes, target);
        expect(got, note).toEqual(path);
        expect(got.map((node) => target[node])).toEqual(output);
      }
    });

    test("have the paths of their masks", () => {
      given.expect.mask.forEach((mask, node) => {
        const seen = [...mask].flatMap((bit, other) => (bit === "1" ? [other] : []));
        expect(pathTo(nodes.parents, node)).toEqual(seen);
      });
    });
  },
);

test("drafts that follow each other are accepted as a chain of them is", () => {
  const random = seeded(3);
  for (let i = 0; i < 200; i++) {
    const tokens = Array.from({ length: Math.floor(random() * 6) }, () => Math.floor(random() * 2));
    const drawn = Array.from({ length: tokens.length + 1 }, () => Math.floor(random() * 2));
    const path = acceptedPath({ tokens, parents: chainParents(tokens.length) }, drawn);
    expect(path).toEqual(chainParents(acceptedOfChain(tokens, drawn) + 1));
  }
});

test("a node that is not kept takes those behind it along, and the others are numbered anew", () => {
  const nodes = { tokens: [11, 12, 21, 22, 23, 31], parents: [0, 0, 1, 2, 2, 3] };
  const asked: number[][] = [];
  const left = keepNodes(nodes, (draft, depth) => {
    asked.push([draft, depth]);
    return draft !== 0;
  });
  expect(left).toEqual({ kept: [1, 3, 4], tokens: [12, 22, 23], parents: [0, 1, 1] });
  expect(asked).toEqual([
    [0, 1],
    [1, 1],
    [3, 2],
    [4, 2],
  ]);
  expect(keepNodes(nodes, (_, depth) => depth < 2)).toEqual({
    ...{ kept: [0, 1], tokens: [11, 12], parents: [0, 0] },
  });
  expect(keepNodes(nodes, () => true)).toMatchObject(nodes);
});
