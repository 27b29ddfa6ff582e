import {
  MAX_TREE_DEPTH,
  MAX_TREE_NODES,
  PATH_WORDS,
  writePath,
} from "../../attention/tree_paths.ts";
import { defineCheck } from "../../check.ts";
import { DRAW_WORDS } from "../../sampling/sample.ts";
import { END_WORDS } from "../accept_rows.ts";
import { STAYS } from "../continue_rows.ts";
import { continueTrees } from "./continue_trees.ts";

interface Shape {
  /** Of each sequence the parents of its nodes; one without nodes has a row that stays. */
  readonly trees: readonly (readonly number[])[];
  readonly pageSize: number;
}

const ROW_WORDS = 4;
/** Pages of a sequence's table. */
const PAGES = 80;
const FIRST_ID = 3;
const WORKGROUP_SIZE = 64;

const chain = (nodes: number) => Array.from({ length: nodes }, (_, node) => node - 1);
const BRANCHED = [-1, 0, 0, 1, 2, 2, 3, 6, 7, 4];
const WIDE = Array.from({ length: MAX_TREE_NODES }, (_, node) => Math.floor((node - 1) / 4));

/** Of each row: its sequence, and its node. */
const rowsOf = ({ trees }: Shape) =>
  trees.flatMap((parents, sequence) =>
    Array.from({ length: Math.max(parents.length, 1) }, (_, node) => ({ sequence, node, parents })),
  );
const mostNodes = ({ trees }: Shape) => Math.max(...trees.map(({ length }) => length)) - 1;
/** Sequences had other places in the step before, and logits have the reverse order of rows. */
const endOf = ({ trees }: Shape, sequence: number) => trees.length - 1 - sequence;
const tokensAt = (shape: Shape, sequence: number) =>
  FIRST_ID + endOf(shape, sequence) * 2 * mostNodes(shape);
const positionOf = (end: number) => (end * 3) % 11;
const pageWords = ({ trees }: Shape) => trees.length * PAGES;

export default defineCheck<Shape>({
  name: "speculation/trees/continue_trees",
  cases: [
    { trees: [BRANCHED, [], [-1], chain(MAX_TREE_DEPTH + 1), [-1, 0, 0]], pageSize: 4 },
    { trees: [WIDE, BRANCHED], pageSize: 1 },
    // Several workgroups.
    { trees: Array.from({ length: 20 }, (_, i) => BRANCHED.slice(0, i % 11)), pageSize: 16 },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: (shape) => 108 * rowsOf(shape).length,
  flops: () => 0,
  mutants: [
    { name: "one more row", replace: "row >= params.rows", with: "row > params.rows" },
    { name: "rows that stay are changed", replace: "entry.end == STAYS", with: "false" },
    { name: "every row is node 0", replace: "if entry.node > 0u", with: "if false" },
    { name: "nodes have the token before", replace: "entry.node - 1u]", with: "entry.node - 2u]" },
    {
      name: "parents are tokens",
      replace: "ids[entry.parents + node - 1u]",
      with: "ids[entry.tokens + node - 1u]",
    },
    {
      name: "all nodes follow node 0",
      replace: "node = above(entry, node)) {",
      with: "node = 0u) {",
    },
    { name: "the path ends early", replace: "left > 0u", with: "left > 1u" },
    { name: "a word has one node", replace: "(left % 4u)", with: "0u" },
    { name: "all nodes are in one word", replace: "NODES_AT + left / 4u", with: "NODES_AT" },
    {
      name: "entries in front of the tree are not counted",
      replace: "page_tables[path + 1u] = end.position;",
      with: "",
    },
    { name: "old nodes stay", replace: "page_tables[path + word] = words[word];", with: "" },
    {
      name: "parents are in the order of rows",
      replace: "parents[entry.logit_row]",
      with: "parents[row]",
    },
    {
      name: "nodes stand where node 0 does",
      replace: "end.position + depth",
      with: "end.position",
    },
    {
      name: "nodes of one depth share an entry",
      replace: "end.position + entry.node",
      with: "position",
    },
    {
      name: "all sequences have the first one's pages",
      replace: "page_tables[page_tables[path] +",
      with: "page_tables[0u +",
    },
    { name: "offsets are lost", replace: "+ place % params.page_size", with: "" },
    { name: "pages have one place", replace: "page * params.page_size +", with: "page +" },
    {
      name: "paths are lost",
      replace: "% params.page_size, path)",
      with: "% params.page_size, 0u)",
    },
    {
      name: "draws are in the order of rows",
      replace: "draws[entry.logit_row]",
      with: "draws[row]",
    },
    {
      name: "what is drawn stands where its row does",
      replace: "= position + 1u",
      with: "= position",
    },
    {
      name: "one workgroup only",
      replace: "row >= params.rows",
      with: `row >= min(params.rows, ${WORKGROUP_SIZE}u)`,
      case: 2,
    },
  ],

  inputs(shape, random) {
    const rows = rowsOf(shape);
    const { trees, pageSize } = shape;
    const nodes = mostNodes(shape);
    const continued = rows.map(({ sequence, node, parents }, row) => {
      const tokens = tokensAt(shape, sequence);
      const end = parents.length === 0 ? STAYS : endOf(shape, sequence);
      return [end, node, tokens, tokens + nodes, rows.length - 1 - row];
    });
    // One more than there are: it must stay as it is.
    continued.push([0, 1, FIRST_ID, FIRST_ID + nodes, rows.length]);
    const ids = Uint32Array.from(
      { length: FIRST_ID + 2 * nodes * trees.length },
      () => 1 + random() * 1000,
    );
    trees.forEach((parents, sequence) => {
      ids.set(parents.slice(1), tokensAt(shape, sequence) + nodes);
    });
    const paths = [...rows, { sequence: 0 }].flatMap(({ sequence }) => [
      sequence * PAGES,
      ...Array.from({ length: PATH_WORDS - 1 }, () => Math.floor(random() * 1000)),
    ]);
    return {
      continued: Uint32Array.from(continued.flat()),
      ends: Uint32Array.from(trees.flatMap((_, end) => [7, 2000 + end, positionOf(end)])),
      ids,
      rows: Uint32Array.from(
        [...rows, 0].flatMap((_, row) => [5, 6, 7, pageWords(shape) + row * PATH_WORDS]),
      ),
      page_tables: Uint32Array.from([
        ...Array.from({ length: pageWords(shape) }, () => Math.floor((random() * 800) / pageSize)),
        ...paths,
      ]),
      parents: new Uint32Array(rows.length + 1).fill(1e6),
      draws: Uint32Array.from({ length: DRAW_WORDS * (rows.length + 1) }, (_, i) => 100 + i),
    };
  },

  reference(shape, inputs) {
    const { ends, ids } = inputs;
    const { pageSize } = shape;
    const rows = Uint32Array.from(inputs.rows!);
    const pageTables = Uint32Array.from(inputs.page_tables!);
    const parents = Uint32Array.from(inputs.parents!);
    const draws = Uint32Array.from(inputs.draws!);
    const all = rowsOf(shape);
    for (const [row, { sequence, node, parents: above }] of all.entries()) {
      if (above.length === 0) continue;
      const [, first, start] = ends!.subarray(endOf(shape, sequence) * END_WORDS);
      const nodes = [node];
      while (nodes[0]! > 0) nodes.unshift(above[nodes[0]!]!);
      const at = pageWords(shape) + row * PATH_WORDS;
      const firstPage = sequence * PAGES;
      writePath(pageTables, at, { firstPage, base: start!, nodes });
      const logitRow = all.length - 1 - row;
      if (node > 0) parents[logitRow] = above[node]!;
      const token = node === 0 ? first! : ids![tokensAt(shape, sequence) + node - 1]!;
      const place = start! + node;
      const page = pageTables[firstPage + Math.floor(place / pageSize)]!;
      const position = start! + nodes.length - 1;
      const slot = page * pageSize + (place % pageSize);
      rows.set([token, position, slot], row * ROW_WORDS);
      draws[(logitRow + 1) * DRAW_WORDS - 1] = position + 1;
    }
    return { rows, page_tables: pageTables, parents, draws };
  },

  bind(recorder, shape, tensors) {
    const launch = continueTrees(recorder, {
      continued: tensors.continued!,
      ends: tensors.ends!,
      ids: tensors.ids!,
      rows: tensors.rows!,
      pageTables: tensors.page_tables!,
      parents: tensors.parents!,
      draws: tensors.draws!,
      pageSize: shape.pageSize,
    });
    return () => launch(rowsOf(shape).length);
  },
});
