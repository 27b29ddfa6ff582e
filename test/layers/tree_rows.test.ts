import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { NO_TREE, PATH_WORDS } from "../../kernels/attention/tree_paths.ts";
import { TreeRows } from "../../src/layers/attention/tree_rows.ts";
import type { BatchSequence } from "../../src/layers/batch.ts";
import {
  keysSeen,
  MAX_TREE_DEPTH,
  MAX_TREE_NODES,
  treePaths,
} from "../../src/layers/draft_tree.ts";

const FIRST_WORD = 100;
/** Draft trees of another engine's rules. */
const GOLDEN = "../shared/data/speculative/trees.json";

interface GoldenTree {
  readonly name: string;
  readonly seq_len: number;
  readonly expect: Record<"parents" | "positions", number[]> & { readonly mask: string[] };
}

const verify = (parents: readonly number[], more: Partial<BatchSequence> = {}): BatchSequence => ({
  phase: "verify",
  queryStart: 0,
  queryLength: parents.length,
  position: 7,
  pageTable: [0],
  tree: { parents },
  ...more,
});

/** Rows as they are written without trees: the sequence's number stands for its first page. */
function rowsOf(sequences: readonly BatchSequence[], padding = 0): Uint32Array {
  const rows: number[] = [];
  sequences.forEach(({ queryLength, position }, s) => {
    for (let i = 0; i < queryLength; i++) rows.push(5, position + i, 6, s);
  });
  for (let i = 0; i < padding; i++) rows.push(0, 0, 9, 99);
  return Uint32Array.from(rows);
}

function filled(sequences: readonly BatchSequence[], { padding = 0, maxTreeNodes = 8 } = {}) {
  const rows = rowsOf(sequences, padding);
  const trees = new TreeRows({ maxRows: 100, maxTreeNodes, firstWord: FIRST_WORD });
  const words = trees.fill(sequences, rows, padding);
  const read = (row: number) => {
    const [, position, , path] = rows.subarray(4 * row, 4 * row + 4);
    const at = path! - FIRST_WORD;
    const [firstPage, base] = trees.paths.subarray(at, at + 2);
    const nodes = [...new Uint8Array(trees.paths.buffer, 4 * (at + 2), 4 * (PATH_WORDS - 2))];
    return { position, firstPage, base, nodes: nodes.slice(0, MAX_TREE_DEPTH + 1) };
  };
  return { rows, words, read };
}

const path = (...nodes: readonly number[]) =>
  Array.from({ length: MAX_TREE_DEPTH + 1 }, (_, depth) => nodes[depth] ?? 0);

test("fill: nodes stand at their depths and say where their path is, other decode rows that they have none", () => {
  const { rows, words, read } = filled(
    [
      verify([-1, 0, 0, 1, 2, 3]),
      { phase: "decode", queryStart: 6, queryLength: 2, position: 30, pageTable: [0] },
      { phase: "prefill", queryStart: 8, queryLength: 1, position: 40, pageTable: [0] },
    ],
    { padding: 1 },
  );
  const tree = { firstPage: 0, base: 7 };
  expect(read(0)).toEqual({ ...tree, position: 7, nodes: path(0) });
  expect(read(2)).toEqual({ ...tree, position: 8, nodes: path(0, 2) });
  expect(read(4)).toEqual({ ...tree, position: 9, nodes: path(0, 2, 4) });
  expect(read(5)).toEqual({ ...tree, position: 10, nodes: path(0, 1, 3, 5) });
  const none = { base: NO_TREE, nodes: path() };
  expect(read(6)).toEqual({ ...none, firstPage: 1, position: 30 });
  expect(read(7)).toEqual({ ...none, firstPage: 1, position: 31 });
  // A row of a prompt stays as it is, one of padding follows none.
  expect([...rows.subarray(32, 36)]).toEqual([5, 40, 6, 2]);
  expect(read(9)).toEqual({ ...none, firstPage: 99, position: 0 });
  // Sources and slots are not changed.
  expect([...rows].filter((_, i) => i % 4 === 2)).toEqual([6, 6, 6, 6, 6, 6, 6, 6, 6, 9]);
  expect(words).toBe(10 * PATH_WORDS);
});

const chain = (nodes: number) => Array.from({ length: nodes }, (_, node) => node - 1);
const fan = (nodes: number) => Array.from({ length: nodes }, (_, node) => Math.min(node, 1) - 1);

test("fill takes trees of the most nodes and of the greatest depth", () => {
  const { read } = filled([verify(fan(MAX_TREE_NODES))], { maxTreeNodes: MAX_TREE_NODES });
  expect(read(MAX_TREE_NODES - 1).nodes).toEqual(path(0, MAX_TREE_NODES - 1));
  const deepest = filled([verify(chain(MAX_TREE_DEPTH + 1))], { maxTreeNodes: 64 });
  expect(deepest.read(MAX_TREE_DEPTH).nodes).toEqual(chain(MAX_TREE_DEPTH + 1).map((n) => n + 1));
});

test.each<[string, BatchSequence, string]>([
  ["too many nodes", verify(fan(9)), "a tree of 9 nodes, and the batch is made for 8"],
  ["a node in front of its parent", verify([-1, 2, 0]), "node 1 has the parent 2"],
  ["a node that is its own parent", verify([-1, 1]), "node 1 has the parent 1"],
  ["two roots", verify([-1, -1]), "node 1 has the parent -1"],
  ["a root with a parent", verify([0]), "node 0 has the parent 0"],
  ["no whole number", verify([-1, 0.5]), "node 1 has the parent 0.5"],
  ["a node too few", verify([-1, 0], { queryLength: 3 }), "3 rows for 2 nodes"],
  ["rows of a prompt", verify([-1, 0], { phase: "prefill" }), "rows of a prompt"],
])("fill refuses %s", (_, sequence, problem) => {
  expect(() => filled([sequence])).toThrow(`Cannot use kernel "draft tree": ${problem}`);
});

test("fill refuses a node too deep", () => {
  const sequence = verify(chain(MAX_TREE_DEPTH + 2));
  expect(() => filled([sequence], { maxTreeNodes: 64 })).toThrow(
    `node ${MAX_TREE_DEPTH + 1} has the depth ${MAX_TREE_DEPTH + 1}, more than ${MAX_TREE_DEPTH}`,
  );
});

test("keysSeen: the deepest node of a tree sees the most keys, not the last", () => {
  expect(keysSeen(verify([-1, 0, 1, 2, 0]))).toBe(11);
  expect(keysSeen(verify([-1]))).toBe(8);
  expect(keysSeen({ position: 7, queryLength: 5 })).toBe(12);
});

test.skipIf(!existsSync(GOLDEN))(
  "golden trees: paths are what masks show (needs ../shared/data)",
  () => {
    const { trees } = JSON.parse(readFileSync(GOLDEN, "utf8")) as { readonly trees: GoldenTree[] };
    expect(trees.length).toBeGreaterThan(5);
    for (const { name, seq_len: position, expect: want } of trees) {
      const { parents, positions, mask } = want;
      const paths = treePaths({ parents });
      const seen = paths.map((nodes) => parents.map((_, node) => (nodes.includes(node) ? 1 : 0)));
      expect(
        seen.map((row) => row.join("")),
        name,
      ).toEqual(mask);
      expect(
        paths.map(({ length }) => position + length - 1),
        name,
      ).toEqual(positions);
      const rows = { queryLength: parents.length, tree: { parents } };
      expect(keysSeen({ ...rows, position }), name).toBe(Math.max(...positions) + 1);
    }
  },
);
