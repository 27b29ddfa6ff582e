import { expect, test } from "vitest";
import { fillRowGroups, GROUP_WORDS } from "../../src/layers/attention/row_groups.ts";
import type { BatchSequence, Phase } from "../../src/layers/batch.ts";

function groupsOf(...sequences: readonly (readonly [Phase, number])[]): number[][] {
  let queryStart = 0;
  const batch = sequences.map(([phase, queryLength]): BatchSequence => {
    const sequence = { phase, queryStart, queryLength, position: 7, pageTable: [0] };
    queryStart += queryLength;
    return sequence;
  });
  const words = new Uint32Array(queryStart * GROUP_WORDS);
  const count = fillRowGroups(words, batch);
  return Array.from({ length: count }, (_, i) => [...words.subarray(2 * i, 2 * i + 2)]);
}

test("fillRowGroups: rows that stand alone need no groups", () => {
  expect(groupsOf(["decode", 1], ["verify", 1], ["prefill", 9])).toEqual([]);
  expect(groupsOf()).toEqual([]);
});

test("fillRowGroups: rows that stand alone are not to wait for a few that could share", () => {
  expect(groupsOf(["decode", 2], ["decode", 1])).toEqual([]);
  expect(groupsOf(["decode", 3], ["decode", 1])).toEqual([
    [0, 3],
    [3, 1],
  ]);
});

test("fillRowGroups: rows of padding share with no row, and make no others share", () => {
  const groups = (queryLength: number) => {
    const one = {
      phase: "verify",
      queryStart: 0,
      queryLength,
      position: 7,
      pageTable: [0],
    } as const;
    const words = new Uint32Array(6 * GROUP_WORDS);
    const count = fillRowGroups(words, [one], { first: queryLength, rows: 2 });
    return Array.from({ length: count }, (_, i) => [...words.subarray(2 * i, 2 * i + 2)]);
  };
  expect(groups(1)).toEqual([]);
  expect(groups(3)).toEqual([
    [0, 3],
    [3, 1],
    [4, 1],
  ]);
});

test("fillRowGroups cuts several rows of one sequence, and joins no two sequences", () => {
  expect(groupsOf(["verify", 3], ["decode", 1], ["verify", 9], ["prefill", 5])).toEqual([
    [0, 3],
    [3, 1],
    [4, 4],
    [8, 4],
    [12, 1],
  ]);
});

test("fillRowGroups: rows of a batch with a draft tree read for themselves", () => {
  const sequences = [3, 4].map((queryLength, s): BatchSequence => {
    const rows = { phase: "verify", queryStart: 3 * s, queryLength, position: 7 } as const;
    return { ...rows, pageTable: [0], ...(s === 1 && { tree: { parents: [-1, 0, 1, 2] } }) };
  });
  expect(fillRowGroups(new Uint32Array(7 * GROUP_WORDS), sequences)).toBe(0);
});
