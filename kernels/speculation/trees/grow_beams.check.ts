import { NO_TREE, PATH_WORDS } from "../../attention/tree_paths.ts";
import { defineCheck, type HostArrays } from "../../check.ts";
import { TREE_ENTRY_WORDS } from "./accept_trees.ts";
import { CANDIDATE_WORDS, growBeams, NO_PARENT, poolStart } from "./grow_beams.ts";

interface Shape {
  readonly sequences: number;
  readonly topk: number;
  readonly step: number;
  readonly pageSize: number;
}

const PAGES = 40;
const PADDING_SLOT = 5000;
const MAX_POSITIONS = 120;
const NODE_BYTE = 8;

const pagesWords = ({ sequences }: Shape) => sequences * PAGES + 1;
const poolSize = ({ topk, step }: Shape) => poolStart(step + 2, topk);
const beamsBefore = ({ topk, step }: Shape) => (step === 0 ? 1 : topk);
/** Some sequences stand at the end of their context, some at the end of their pages. */
const positionOf = ({ step }: Shape, s: number) =>
  s % 4 === 3 ? MAX_POSITIONS - 1 - step : 5 + 7 * s;
const firstPage = ({ sequences }: Shape, s: number) => (sequences - 1 - s) * PAGES;
const placesOf = (shape: Shape, s: number) => {
  const { topk, step } = shape;
  const end = positionOf(shape, s);
  return s % 4 === 2 ? end + 1 + step * topk + Math.ceil(topk / 2) : end + 300;
};

const words = new DataView(new ArrayBuffer(4));
function bitsOf(value: number): number {
  words.setFloat32(0, value);
  return words.getUint32(0);
}
function floatOf(bits: number): number {
  words.setUint32(0, bits);
  return words.getFloat32(0);
}

/** Writes a sequence's candidates into the pool, and ranks them. */
function takeCandidates(shape: Shape, s: number, inputs: HostArrays): number[] {
  const { topk, step } = shape;
  const { pool, beams, probabilities, tokens } = inputs;
  const own = s * poolSize(shape);
  const count = beamsBefore(shape) * topk;
  const scores = Array.from({ length: count }, (_, c) => {
    const parent = step === 0 ? NO_PARENT : beams![s * topk + Math.floor(c / topk)]!;
    const above = step === 0 ? 1 : floatOf(pool![(own + parent) * CANDIDATE_WORDS]!);
    const p = probabilities![s * count + c]!;
    const score = p > 0 ? Math.fround(above * Math.min(p, 1)) : 0;
    const words = [bitsOf(score), tokens![s * count + c]!, parent];
    pool!.set(words, (own + poolStart(step, topk) + c) * CANDIDATE_WORDS);
    return score;
  });
  return [...scores.keys()].sort((a, b) => scores[b]! - scores[a]! || a - b);
}

/** Position and slot of a beam's row, and the path that it follows. */
function rowOf(
  shape: Shape,
  { s, b, parentRow }: Readonly<Record<"s" | "b" | "parentRow", number>>,
  { entries, page_tables: tables }: HostArrays,
) {
  const { sequences, topk, step, pageSize } = shape;
  const at = s * TREE_ENTRY_WORDS;
  const [places, page, , position] = entries!.subarray(at + 2, at + TREE_ENTRY_WORDS);
  const node = step * topk + b;
  const place = position! + 1 + node;
  const isThere = place < places! && position! + 1 + step < MAX_POSITIONS;
  const from = pagesWords(shape) + parentRow * PATH_WORDS;
  const path = Array.from({ length: PATH_WORDS }, (_, word) =>
    step === 0 || word < 2 ? 0 : tables![from + word]!,
  );
  path[0] = isThere ? page! : sequences * PAGES;
  path[1] = isThere ? position! + 1 : NO_TREE;
  path[2 + Math.floor(step / 4)]! += node * 2 ** (NODE_BYTE * (step % 4));
  const found = tables![page! + Math.floor(place / pageSize)]!;
  const slot = found * pageSize + (place % pageSize);
  return { row: isThere ? [position! + 1 + step, slot] : [0, PADDING_SLOT], path };
}

export default defineCheck<Shape>({
  name: "speculation/trees/grow_beams",
  cases: [
    { sequences: 5, topk: 3, step: 1, pageSize: 4 },
    { sequences: 5, topk: 3, step: 0, pageSize: 16 },
    { sequences: 4, topk: 8, step: 5, pageSize: 16 },
    { sequences: 2, topk: 64, step: 2, pageSize: 64 },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ sequences, topk }) => sequences * (20 * topk ** 2 + 64 * topk + 32),
  flops: ({ sequences, topk }) => sequences * topk ** 2,
  mutants: [
    {
      name: "scores are probabilities",
      replace: "above * min(probability, 1.0)",
      with: "min(probability, 1.0)",
    },
    {
      name: "probabilities may be above 1",
      replace: "above * min(probability, 1.0)",
      with: "above * probability",
    },
    {
      name: "no probability is taken as it is",
      replace: "select(0.0, above * min(probability, 1.0), probability > 0.0)",
      with: "above * min(probability, 1.0)",
    },
    {
      name: "all follow the best beam",
      replace: "beams[sequence * topk + c / topk]",
      with: "beams[sequence * topk]",
    },
    {
      name: "beams are ranks",
      replace: "beams[sequence * topk + c / topk]",
      with: "beams[sequence * topk + c % topk]",
    },
    { name: "every step is the same", replace: "step = step + 1u", with: "step = step" },
    {
      name: "steps have the pool's room of a first one",
      replace: "(step - 1u) * topk * topk",
      with: "(step - 1u) * topk",
      case: 2,
    },
    { name: "one pool for all", replace: "sequence * params.pool_size", with: "0u * sequence" },
    {
      name: "steps overwrite each other",
      replace: "own_pool + pool_start",
      with: "own_pool",
    },
    {
      name: "ties go to the highest number",
      replace: "index < other_index",
      with: "index > other_index",
    },
    {
      name: "the same beam twice",
      replace: "{ own = best_after(invocation, first, count, best); }",
      with: "{ }",
    },
    {
      name: "numbers are those of the step",
      replace: "pool_start + candidate",
      with: "candidate",
    },
    {
      name: "rows follow the beam of their own number",
      replace: "topk + candidate / topk",
      with: "topk + beam",
    },
    {
      name: "a first row follows a beam",
      replace: "step == 0u);\n  var row",
      with: "step == 100u);\n  var row",
      case: 1,
    },
    {
      name: "a first step has all beams",
      replace: "select(topk, 1u, step == 0u)",
      with: "topk",
      case: 1,
    },
    {
      name: "a first candidate has a parent",
      replace: "if step > 0u {\n      parent",
      with: "if true {\n      parent",
      case: 1,
    },
    {
      name: "paths go on from what stood there",
      replace: "if step > 0u { before",
      with: "if true { before",
      case: 1,
    },
    { name: "paths begin anew", replace: "return before | (node", with: "return (node" },
    {
      name: "words of a path are all alike",
      replace: "NODES_AT + step / 4u",
      with: "NODES_AT",
      case: 2,
    },
    {
      name: "bytes of a path are all alike",
      replace: "8u * (step % 4u)",
      with: "0u",
    },
    {
      name: "nodes of all steps have the same numbers",
      replace: "let node = step * topk + beam",
      with: "let node = beam",
    },
    { name: "the base is the last token", replace: "entry.position + 1u", with: "entry.position" },
    {
      name: "positions are places",
      replace: "let position = base + step;",
      with: "let position = place;",
    },
    { name: "one place more", replace: "place < entry.places", with: "place <= entry.places" },
    {
      name: "one position more",
      replace: "position < params.max_positions",
      with: "position <= params.max_positions",
    },
    {
      name: "rows without a place stay in the tree",
      replace: "select(NO_TREE, base, has_room)",
      with: "base",
    },
    {
      name: "rows without a place read the sequence's pages",
      replace: "select(params.padding_page, entry.first_page, has_room)",
      with: "entry.first_page",
    },
    {
      name: "rows without a place write to it",
      replace: "if has_room { row",
      with: "if true { row",
    },
    {
      name: "all sequences have the first one's pages",
      replace: "page_tables[first_page +",
      with: "page_tables[0u * first_page +",
    },
    { name: "offsets are lost", replace: "+ place % params.page_size", with: "" },
    {
      name: "tokens are those of ranks",
      replace: "pool[first + candidate].token",
      with: "pool[first + beam].token",
    },
    {
      name: "only 64 candidates",
      replace: "for (var c = invocation; c < count; c += WORKGROUP_SIZE) {\n    // Of",
      with: "for (var c = invocation; c < min(count, 64u); c += WORKGROUP_SIZE) {\n    // Of",
      case: 3,
    },
  ],

  inputs(shape, random) {
    const { sequences, topk, step, pageSize } = shape;
    const all = Array.from({ length: sequences }, (_, s) => s);
    const given = sequences * beamsBefore(shape) * topk;
    const pool = new Uint32Array(sequences * poolSize(shape) * CANDIDATE_WORDS);
    for (let i = 0; i < pool.length; i += CANDIDATE_WORDS) {
      pool.set([bitsOf(Math.ceil(random() * 8) / 8), random() * 1000, random() * 50], i);
    }
    const ranks = (s: number) =>
      Array.from({ length: topk }, (_, b) =>
        step === 0
          ? 77
          : poolStart(step - 1, topk) +
            ((b * 5 + s) % (poolStart(step, topk) - poolStart(step - 1, topk))),
      );
    const paths = Uint32Array.from({ length: sequences * topk * PATH_WORDS }, (_, i) => {
      const word = i % PATH_WORDS;
      if (word < 2) return random() * 1000;
      // Nodes of the steps before.
      const nodes = Math.min(Math.max(step - (word - 2) * 4, 0), 4);
      return step === 0 ? random() * 1000 : Math.floor(random() * 2 ** (NODE_BYTE * nodes));
    });
    return {
      entries: Uint32Array.from(
        all.flatMap((s) => [
          1,
          1,
          placesOf(shape, s),
          firstPage(shape, s),
          40 + s,
          positionOf(shape, s),
          step,
          50 + s,
          60 + s,
        ]),
      ),
      // Eighths, so that many products tie, and what is no probability.
      probabilities: Float32Array.from({ length: given }, (_, i) => {
        if (i % 11 === 7) return [Number.NaN, -0.5, 1.5][i % 3]!;
        return topk > 8 ? random() : Math.ceil(random() * 8) / 8;
      }),
      tokens: Uint32Array.from({ length: given }, () => random() * 1000),
      pool,
      beams: Uint32Array.from(all.flatMap(ranks)),
      page_tables: Uint32Array.from([
        ...Array.from({ length: pagesWords(shape) }, () => Math.floor((random() * 800) / pageSize)),
        ...paths,
      ]),
    };
  },

  reference(shape, inputs) {
    const { sequences, topk, step } = shape;
    const pool = Uint32Array.from(inputs.pool!);
    const entries = Uint32Array.from(inputs.entries!);
    const beams = Uint32Array.from(inputs.beams!);
    const tables = Uint32Array.from(inputs.page_tables!);
    const rows: number[] = [];
    const parentRows: number[] = [];
    for (let s = 0; s < sequences; s++) {
      entries[s * TREE_ENTRY_WORDS + 6] = step + 1;
      const order = takeCandidates(shape, s, { ...inputs, pool });
      const own = (s * poolSize(shape) + poolStart(step, topk)) * CANDIDATE_WORDS;
      for (let b = 0; b < topk; b++) {
        const c = order[b]!;
        const parentRow = s * topk + Math.floor(c / topk);
        const token = pool[own + c * CANDIDATE_WORDS + 1]!;
        const { row, path } = rowOf(shape, { s, b, parentRow }, inputs);
        const at = pagesWords(shape) + (s * topk + b) * PATH_WORDS;
        tables.set(path, at);
        rows.push(token, ...row, at);
        beams[s * topk + b] = poolStart(step, topk) + c;
        parentRows.push(step === 0 ? inputs.entries![s * TREE_ENTRY_WORDS + 4]! : parentRow);
      }
    }
    return {
      entries,
      pool,
      beams,
      rows: Uint32Array.from(rows),
      parent_rows: Uint32Array.from(parentRows),
      page_tables: tables,
    };
  },

  bind(recorder, shape, tensors) {
    const { sequences, topk, pageSize } = shape;
    const launch = growBeams(recorder, {
      entries: tensors.entries!,
      probabilities: tensors.probabilities!,
      tokens: tensors.tokens!,
      pool: tensors.pool!,
      beams: tensors.beams!,
      rows: tensors.rows!,
      parentRows: tensors.parent_rows!,
      pageTables: tensors.page_tables!,
      topk,
      poolSize: poolSize(shape),
      pageSize,
      maxPositions: MAX_POSITIONS,
      paddingSlot: PADDING_SLOT,
      paddingPage: sequences * PAGES,
      firstPath: pagesWords(shape),
    });
    return () => launch(sequences);
  },
});
