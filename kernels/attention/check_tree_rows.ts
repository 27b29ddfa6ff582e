/**
 * Rows of draft trees for the checks of attention: those of another check's inputs, and the same rows
 * as if each had a sequence of its own, which is its path.
 *
 * @module
 */
import type { HostArrays, Mutant } from "../check.ts";
import { NO_TREE, PATH_WORDS, writePath } from "./tree_paths.ts";

/** A tree of rows that follow each other; the inputs have them at positions that ascend one by one. */
export interface CheckTree {
  /** Row of node 0. */
  readonly first: number;
  readonly parents: readonly number[];
}

/** Two beams of three: node 5 has the path 0 1 3 5. */
export const SMALL_TREE = [-1, 0, 0, 1, 2, 3];
/** One long path among others: node 17 has the depth 6. */
export const DEEP_TREE = [-1, 0, 0, 0, 1, 1, 2, 4, 5, 7, 8, 9, 9, 11, 12, 13, 14, 13];

function nodesTo(parents: readonly number[], node: number): number[] {
  return node < 0 ? [] : [...nodesTo(parents, parents[node]!), node];
}

/** The nodes from the root to a row; none for a row of no tree. */
function nodesOf(trees: readonly CheckTree[], row: number): readonly number[] {
  const tree = trees.find(({ first, parents }) => row >= first && row < first + parents.length);
  return tree === undefined ? [] : nodesTo(tree.parents, row - tree.first);
}

/** Positions of rows, which stand at `positions` before they are of trees. */
export function treePositions(trees: readonly CheckTree[], positions: readonly number[]): number[] {
  return positions.map((position, row) => {
    const nodes = nodesOf(trees, row);
    return nodes.length === 0 ? position : position - nodes.at(-1)! + nodes.length - 1;
  });
}

/**
 * @returns The inputs with rows that follow paths, and as `plain_rows` and `plain_slots` the rows and
 * page tables of sequences of their own, with pages of one token.
 */
export function treeInputs(
  inputs: HostArrays,
  { trees, pageSize }: { readonly trees: readonly CheckTree[]; readonly pageSize: number },
): HostArrays {
  const { page_tables: pages } = inputs as { readonly page_tables: Uint32Array };
  const rows = Uint32Array.from(inputs.rows!);
  const plainRows = rows.slice();
  const rowCount = rows.length / 4;
  const positions = Array.from({ length: rowCount }, (_, r) => rows[4 * r + 1]!);
  const paths = new Uint32Array(rowCount * PATH_WORDS);
  const slots: number[] = [];
  treePositions(trees, positions).forEach((position, r) => {
    const nodes = nodesOf(trees, r);
    const base = nodes.length === 0 ? NO_TREE : positions[r]! - nodes.at(-1)!;
    const firstPage = rows[4 * r + 3]!;
    plainRows.set([5, position, 6, slots.length], 4 * r);
    for (let key = 0; key <= position; key++) {
      const entry = key < base ? key : base + nodes[key - base]!;
      const page = pages[firstPage + Math.floor(entry / pageSize)]!;
      slots.push(page * pageSize + (entry % pageSize));
    }
    writePath(paths, r * PATH_WORDS, { firstPage, base, nodes });
    rows.set([5, position, 6, pages.length + r * PATH_WORDS], 4 * r);
  });
  const page_tables = new Uint32Array(pages.length + paths.length);
  page_tables.set(pages);
  page_tables.set(paths, pages.length);
  const plain = { plain_rows: plainRows, plain_slots: Uint32Array.from(slots) };
  return { ...inputs, rows, page_tables, ...plain };
}

/** The inputs of the rows as sequences of their own. */
export function plainInputs(inputs: HostArrays): HostArrays {
  return { ...inputs, rows: inputs.plain_rows!, page_tables: inputs.plain_slots! };
}

/** Faults of the part that finds slots; in the first place, what a kernel without trees does. */
export const TREE_MUTANTS: readonly Mutant[] = [
  { name: "paths are ignored", replace: "all(key < base)", with: "true" },
  {
    name: "the tree begins an entry too late",
    replace: "vec4u(page_tables[path + 1u])",
    with: "vec4u(page_tables[path + 1u] + 1u)",
  },
  {
    name: "the tree begins an entry too early",
    replace: "vec4u(page_tables[path + 1u])",
    with: "vec4u(page_tables[path + 1u] - 1u)",
  },
  {
    name: "entries in front of the tree are of it",
    replace: "select(base + node, key, key < base)",
    with: "base + node",
  },
  { name: "four nodes stand for all", replace: "depth / 4u", with: "depth / 64u" },
  {
    name: "the first of four nodes stands for all",
    replace: "8u * (depth % 4u)",
    with: "0u * depth",
  },
  { name: "nodes have four bits", replace: "vec4u(0xffu)", with: "vec4u(0xfu)" },
  { name: "nodes begin a word early", replace: "NODES_AT = 2u", with: "NODES_AT = 1u" },
  {
    name: "pages are not looked up",
    replace: "page_tables[page.x], page_tables[page.y]",
    with: "page.x, page.y",
  },
  { name: "the place in the page is ignored", replace: "+ token % params.page_size", with: "" },
  {
    name: "pages go by the number of a key",
    replace: "+ token / params.page_size",
    with: "+ key / params.page_size",
  },
];
