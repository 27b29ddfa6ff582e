import { MAX_TREE_DEPTH } from "../../attention/tree_paths.ts";
import { defineCheck } from "../../check.ts";
import { acceptTrees, TREE_ENTRY_WORDS } from "./accept_trees.ts";

/** The parents of a sequence's nodes, and the path that the drawn tokens follow. */
type Tree = readonly [parents: readonly number[], path: readonly number[]];

interface Shape {
  readonly trees: readonly Tree[];
}

const NONE = 0xdeadbeef;
const chain = (nodes: number) => Array.from({ length: nodes }, (_, node) => node - 1);
const range = (count: number) => Array.from({ length: count }, (_, i) => i);

const TREES: readonly Tree[] = [
  [
    [-1, 0, 0, 1, 2, 3],
    [0, 2, 4],
  ],
  [
    [-1, 0, 0, 1, 2, 3],
    [0, 1, 3, 5],
  ],
  [[-1, 0, 0, 0], [0]],
  [[-1], [0]],
  // As deep as a path may be, and no node moves.
  [chain(MAX_TREE_DEPTH + 1), range(MAX_TREE_DEPTH + 1)],
  [
    [-1, 0, 0, 2, 2, 3, 4, 6, 7],
    [0, 2, 4, 6, 7, 8],
  ],
  [chain(4), [0, 1]],
];

/** Rows of the step stand in the reverse order of their logits, with one in between. */
const rowOf = (logits: number, i: number) => 2 * (logits - 1 - i) + 1;
const logitsOf = ({ trees }: Shape) => trees.reduce((sum, [parents]) => sum + parents.length, 0);

/** The first row of logits of each tree. */
function firstRows({ trees }: Shape): number[] {
  let first = 0;
  return trees.map(([parents]) => {
    first += parents.length;
    return first - parents.length;
  });
}

export default defineCheck<Shape>({
  name: "speculation/trees/accept_trees",
  cases: [
    { trees: TREES },
    // Several workgroups.
    { trees: Array.from({ length: 150 }, (_, i) => TREES[i % TREES.length]!) },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ trees }) => 76 * trees.length,
  flops: () => 0,
  mutants: [
    {
      name: "one more sequence",
      replace: "sequence >= params.sequences",
      with: "sequence > params.sequences",
    },
    {
      name: "any node may follow",
      replace: "parents[first + node] != last ||",
      with: "",
    },
    {
      name: "parents are those of the step's first tree",
      replace: "parents[first + node]",
      with: "parents[node]",
    },
    {
      name: "every draft is accepted",
      replace: "|| rows[row].source != sampled[first + last]",
      with: "",
    },
    {
      name: "drafts are compared with their own row's token",
      replace: "!= sampled[first + last]",
      with: "!= sampled[first + node]",
    },
    {
      name: "the last draft is left out",
      replace: "node < count",
      with: "node + 1u < count",
    },
    {
      name: "rows stand in the order of their logits",
      replace: "let row = logit_rows[first + node]",
      with: "let row = first + node",
    },
    {
      name: "entries move to where the first ones stand",
      replace: "rows[logit_rows[first + depth]].slot",
      with: "rows[logit_rows[first]].slot",
    },
    { name: "entries stay", replace: "rows[row].slot,", with: "rows[logit_rows[first]].slot," },
    {
      name: "moves that change nothing are made",
      replace: "if depth == node { continue; }",
      with: "",
    },
    {
      name: "sequences share their moves",
      replace: "sequence * MAX_DEPTH",
      with: "0u * sequence",
    },
    {
      name: "one move fewer",
      replace: "vec2u(first_move, moved)",
      with: "vec2u(first_move, max(moved, 1u) - 1u)",
    },
    {
      name: "the path ends at its root",
      replace: "logit_rows[first + last];",
      with: "logit_rows[first];",
    },
    {
      name: "the last row's place in the step is lost",
      replace: ".last_row = last_row",
      with: ".last_row = last",
    },
    {
      name: "positions are depths",
      replace: ".position = rows[last_row].position",
      with: ".position = depth",
    },
    { name: "steps go on", replace: ".step = 0u", with: ".step += 0u" },
    {
      name: "the token drawn is the root's",
      replace: ".token = sampled[first + last]",
      with: ".token = sampled[first]",
    },
    {
      name: "the token drawn stands where its row does",
      replace: ".position + 1u;",
      with: ".position;",
    },
    {
      name: "one workgroup only",
      replace: "sequence >= params.sequences",
      with: "sequence >= min(params.sequences, 64u)",
      case: 1,
    },
  ],

  inputs(shape, random) {
    const logits = logitsOf(shape);
    const sampled = Uint32Array.from({ length: logits }, () => random() * 1000);
    const rows = Uint32Array.from({ length: 8 * logits }, () => random() * 1000);
    const parents = new Uint32Array(logits).fill(NONE);
    const entries: number[] = [];
    const firsts = firstRows(shape);
    shape.trees.forEach(([above, path], s) => {
      const first = firsts[s]!;
      entries.push(first, above.length, 99, 7, 3, 4, 5, 6, 8);
      for (let node = 1; node < above.length; node++) {
        const parent = above[node]!;
        parents[first + node] = parent;
        // A node that is not on the path is right behind another node than its parent.
        const isRight = path.includes(node);
        const wrong = sampled[first + path.find((one) => one !== parent)!] ?? 1001;
        const drawn = sampled[first + parent]!;
        const source = isRight ? drawn : wrong === drawn ? 1002 : wrong;
        rows[rowOf(logits, first + node) * 4] = source;
      }
    });
    return {
      // One more than there are: it must stay as it is.
      entries: Uint32Array.from([...entries, ...new Array<number>(TREE_ENTRY_WORDS).fill(0)]),
      parents,
      logit_rows: Uint32Array.from({ length: logits }, (_, i) => rowOf(logits, i)),
      rows,
      sampled,
      moves: new Uint32Array(shape.trees.length * MAX_TREE_DEPTH * 2).fill(NONE),
    };
  },

  reference(shape, inputs) {
    const { logit_rows: logitRows, rows } = inputs;
    const entries = Uint32Array.from(inputs.entries!);
    const moves = Uint32Array.from(inputs.moves!);
    const last: number[] = [];
    const runs: number[] = [];
    const firsts = firstRows(shape);
    shape.trees.forEach(([, path], s) => {
      const rowAt = (node: number) => logitRows![firsts[s]! + node]!;
      const slotOf = (node: number) => rows![rowAt(node) * 4 + 2]!;
      const end = rowAt(path.at(-1)!);
      const position = rows![end * 4 + 1]!;
      const token = inputs.sampled![firsts[s]! + path.at(-1)!]!;
      entries.set([end, position, 0, token, position + 1], s * TREE_ENTRY_WORDS + 4);
      last.push(end);
      const moved = path.flatMap((node, depth) =>
        node === depth ? [] : [slotOf(node), slotOf(depth)],
      );
      moves.set(moved, s * MAX_TREE_DEPTH * 2);
      runs.push(s * MAX_TREE_DEPTH, moved.length / 2);
    });
    return {
      entries,
      last_rows: Uint32Array.from(last),
      runs: Uint32Array.from(runs),
      moves,
    };
  },

  bind(recorder, { trees }, tensors) {
    const launch = acceptTrees(recorder, {
      entries: tensors.entries!,
      parents: tensors.parents!,
      logitRows: tensors.logit_rows!,
      rows: tensors.rows!,
      sampled: tensors.sampled!,
      lastRows: tensors.last_rows!,
      runs: tensors.runs!,
      moves: tensors.moves!,
    });
    return () => launch(trees.length);
  },
});
