/**
 * What a draft model's steps give, and which of it becomes the tree: on the host, in plain loops, as the
 * kernels of trees have to have it.
 *
 * Each step gives `topk` candidates after each beam. A candidate's score is the product of the
 * draft's probabilities on the way to it, in f32. The best candidates of a step are the beams of the
 * next one; the best of all steps are the tree. Of equal scores the lower number comes first, so a
 * candidate is never chosen without its parent: scores fall along a path and numbers rise.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
import { type DraftTree, linkTree, NO_NODE } from "../../src/speculation/draft_tree.ts";
import type { DraftTreeShape } from "../../src/speculation/draft_tree_shape.ts";

/** The candidates in the order of their numbers: by step, by beam, by rank. */
export interface DraftPool {
  readonly shape: DraftTreeShape;
  /** `[poolSize]` */
  readonly scores: Float32Array;
  /** `[poolSize]` */
  readonly tokens: Uint32Array;
  /** `[poolSize]`: the candidate that this one follows; `NO_NODE` for those of the first step. */
  readonly parents: Int32Array;
}

/** What the draft gives in one step: `[topk]` in the first one, `[topk, topk]` by beam in others. */
export interface DraftStep {
  /** In 0..1. */
  readonly probabilities: ArrayLike<number>;
  readonly tokens: ArrayLike<number>;
}

export function draftPool(shape: DraftTreeShape): DraftPool {
  return {
    shape,
    scores: new Float32Array(shape.poolSize),
    tokens: new Uint32Array(shape.poolSize),
    parents: new Int32Array(shape.poolSize).fill(NO_NODE),
  };
}

/**
 * Writes a step's candidates into the pool.
 *
 * @param step From 0; steps come in their order.
 * @param beams What this returned for the step before; none for the first step.
 * @returns The beams of the next step, best first: `[topk]` numbers of candidates.
 * @throws {KernelError} where the lists have other lengths than the shape says.
 */
export function addStep(
  pool: DraftPool,
  step: number,
  given: DraftStep,
  beams: ArrayLike<number> = [],
): Uint32Array {
  const { shape, scores, tokens, parents } = pool;
  const [start, end] = [shape.poolStart(step), shape.poolStart(step + 1)];
  requireLengths(given, end - start, beams.length, step === 0 ? 0 : shape.topk);
  for (let id = start; id < end; id++) {
    const beam = step === 0 ? NO_NODE : beams[Math.floor((id - start) / shape.topk)]!;
    const above = beam === NO_NODE ? 1 : scores[beam]!;
    const probability = given.probabilities[id - start]!;
    // What is no probability must not raise a candidate above its parent.
    scores[id] = probability > 0 ? above * Math.min(Math.fround(probability), 1) : 0;
    tokens[id] = given.tokens[id - start]!;
    parents[id] = beam;
  }
  const own = Uint32Array.from({ length: end - start }, (_, i) => start + i);
  return bestFirst(pool, own).subarray(0, shape.topk);
}

/** The candidates that become nodes: the best of all, by number: `[draftTokens - 1]`. */
export function selectCandidates(pool: DraftPool): Uint32Array {
  const all = Uint32Array.from(pool.scores, (_, id) => id);
  return bestFirst(pool, all)
    .subarray(0, pool.shape.draftTokens - 1)
    .slice()
    .sort();
}

/**
 * The tree of chosen candidates: node 0 is the root, node `i + 1` the candidate `selected[i]`.
 *
 * @param root The newest token of the sequence.
 * @param selected Ascending, with the parent of each.
 */
export function treeOfCandidates(
  pool: DraftPool,
  root: number,
  selected: ArrayLike<number>,
): DraftTree {
  const nodeOf = new Map([[NO_NODE, 0]]);
  const tokens = [root];
  const parents = [NO_NODE];
  for (const id of Array.from(selected)) {
    nodeOf.set(id, tokens.length);
    tokens.push(pool.tokens[id]!);
    parents.push(nodeOf.get(pool.parents[id]!) ?? NO_NODE);
  }
  return linkTree({ tokens, parents });
}

function bestFirst({ scores }: DraftPool, ids: Uint32Array): Uint32Array {
  return ids.sort((a, b) => scores[b]! - scores[a]! || a - b);
}

function requireLengths(given: DraftStep, wanted: number, beams: number, wantedBeams: number) {
  const { probabilities, tokens } = given;
  if (probabilities.length === wanted && tokens.length === wanted && beams === wantedBeams) return;
  throw new KernelError(
    "draft candidates",
    `${probabilities.length} probabilities and ${tokens.length} tokens for ${beams} beams, ` +
      `where ${wanted} for ${wantedBeams} are due`,
  );
}
