import { defineCheck } from "../../check.ts";
import { END_WORDS } from "../accept_rows.ts";
import { TREE_ENTRY_WORDS } from "./accept_trees.ts";
import { chooseTree } from "./choose_tree.ts";
import { CANDIDATE_WORDS, NO_PARENT, poolStart } from "./grow_beams.ts";

interface Shape {
  readonly sequences: number;
  readonly topk: number;
  readonly steps: number;
  /** Steps that the pool has room for. */
  readonly most: number;
  readonly nodes: number;
}

const FIRST_ID = 5;
const poolSize = ({ topk, most }: Shape) => poolStart(most, topk);
const candidates = ({ topk, steps }: Shape) => poolStart(steps, topk);

export default defineCheck<Shape>({
  name: "speculation/trees/choose_tree",
  cases: [
    { sequences: 5, topk: 3, steps: 3, most: 4, nodes: 7 },
    { sequences: 3, topk: 2, steps: 2, most: 2, nodes: 6 }, // the whole pool
    { sequences: 2, topk: 4, steps: 1, most: 3, nodes: 2 },
    { sequences: 4, topk: 16, steps: 5, most: 5, nodes: 63 },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: (shape) => shape.sequences * (20 + 4 * candidates(shape) + 16 * shape.nodes),
  flops: () => 0,
  mutants: [
    { name: "one pool for all", replace: "group.x * params.pool_size", with: "0u * group.x" },
    {
      name: "pools are as large as what they have",
      replace: "group.x * params.pool_size",
      with: "group.x * params.count",
    },
    {
      name: "steps that were not made count",
      replace: "c < params.count",
      with: "c < params.pool_size",
    },
    {
      name: "ties go to the highest number",
      replace: "index < other_index",
      with: "index > other_index",
    },
    {
      name: "the same node twice",
      replace: "{ own = best_after(invocation, first, best); }",
      with: "{ }",
    },
    {
      name: "nodes stand in the order of their scores",
      replace: "params.nodes + nodes_before(candidate)",
      with: "params.nodes + invocation",
    },
    { name: "ids in front are lost", replace: "params.first_id + group.x", with: "group.x" },
    {
      name: "sequences share ids",
      replace: "params.first_id + group.x *",
      with: "params.first_id + 0u * group.x *",
    },
    {
      name: "parents are candidates",
      replace: "above = 1u + nodes_before(parent)",
      with: "above = parent",
    },
    {
      name: "parents are drafts",
      replace: "above = 1u + nodes_before(parent)",
      with: "above = nodes_before(parent)",
    },
    {
      name: "those without a parent have one",
      replace: "if parent != NO_PARENT",
      with: "if true",
    },
    {
      name: "parents stand behind all tokens",
      replace: "ids[out + params.nodes]",
      with: "ids[out + 1u]",
    },
    {
      name: "all sequences go on from the first one's end",
      replace: "entries[group.x]",
      with: "entries[0u * group.x]",
    },
    { name: "the end's token is lost", replace: "entry.token, entry.next", with: "0u, entry.next" },
    {
      name: "the next row stands at the path's end",
      replace: "entry.token, entry.next",
      with: "entry.token, entry.position",
    },
    {
      name: "only 64 candidates",
      replace: "c < params.count",
      with: "c < min(params.count, 64u)",
      case: 3,
    },
  ],

  inputs(shape, random) {
    const { sequences, topk, nodes } = shape;
    const pool: number[] = [];
    const words = new DataView(new ArrayBuffer(4));
    for (let s = 0; s < sequences; s++) {
      const scores: number[] = [];
      for (let id = 0; id < poolSize(shape); id++) {
        const step = id < topk ? 0 : Math.floor((id - topk) / topk ** 2) + 1;
        const before = poolStart(Math.max(step - 1, 0), topk);
        const beam = Math.floor((id - poolStart(step, topk)) / topk);
        const isLate = step >= shape.steps;
        const parent = step === 0 ? NO_PARENT : before + beam;
        // Halves and wholes, so that children tie with their parents.
        const share = random() < 0.3 ? 1 : 0.5 + random() / 2;
        const above = step === 0 ? 1 : scores[parent]!;
        scores.push(isLate ? 2 : Math.fround(above * (random() < 0.5 ? share : 0.5)));
        words.setFloat32(0, scores.at(-1)!);
        pool.push(words.getUint32(0), random() * 1000, parent);
      }
    }
    return {
      pool: Uint32Array.from(pool),
      entries: Uint32Array.from({ length: sequences * TREE_ENTRY_WORDS }, (_, i) => 300 + i),
      ids: new Uint32Array(FIRST_ID + sequences * 2 * nodes + 3).fill(1e6),
    };
  },

  reference(shape, { pool, entries, ids: given }) {
    const { sequences, nodes } = shape;
    const ids = Uint32Array.from(given!);
    const scores = new Float32Array(pool!.slice().buffer);
    const ends = new Uint32Array(sequences * END_WORDS);
    for (let s = 0; s < sequences; s++) {
      const at = (id: number) => (s * poolSize(shape) + id) * CANDIDATE_WORDS;
      const chosen = Array.from({ length: candidates(shape) }, (_, id) => id)
        .sort((a, b) => scores[at(b)]! - scores[at(a)]! || a - b)
        .slice(0, nodes)
        .sort((a, b) => a - b);
      const end = entries!.slice((s + 1) * TREE_ENTRY_WORDS - 2, (s + 1) * TREE_ENTRY_WORDS);
      ends.set([nodes, ...end], s * END_WORDS);
      const out = FIRST_ID + s * 2 * nodes;
      chosen.forEach((id, i) => {
        const parent = pool![at(id) + 2]!;
        ids[out + i] = pool![at(id) + 1]!;
        ids[out + nodes + i] = parent === NO_PARENT ? 0 : 1 + chosen.indexOf(parent);
      });
    }
    return { ids, ends };
  },

  bind(recorder, shape, tensors) {
    const launch = chooseTree(recorder, {
      pool: tensors.pool!,
      entries: tensors.entries!,
      ids: tensors.ids!,
      ends: tensors.ends!,
      poolSize: poolSize(shape),
    });
    const { sequences, nodes } = shape;
    return () => launch(sequences, { candidates: candidates(shape), nodes, firstId: FIRST_ID });
  },
});
