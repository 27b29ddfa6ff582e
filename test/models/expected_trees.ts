/**
 * The tree of drafts that steps ought to make, from what the model that drafts says behind each path.
 *
 * @module
 */
import { NO_NODE } from "../../src/speculation/draft_tree.ts";
import type { DraftTreeShape } from "../../src/speculation/draft_tree_shape.ts";
import {
  addStep,
  draftPool,
  selectCandidates,
  treeOfCandidates,
} from "../speculation/draft_candidates.ts";

export interface Drafter {
  /** Logits of the token behind drafts that follow each other. */
  behind(path: readonly number[]): Promise<ArrayLike<number>> | ArrayLike<number>;
  /** The target's number of a token. Default: the same. */
  targetId?(token: number): number;
}

/** Tokens of the nodes behind the newest token, then their parents. */
export async function expectedTree(shape: DraftTreeShape, drafter: Drafter): Promise<number[]> {
  const { steps, topk } = shape;
  const { targetId = (token: number) => token } = drafter;
  const pool = draftPool(shape);
  const pathTo = (id: number): number[] =>
    id === NO_NODE ? [] : [...pathTo(pool.parents[id]!), pool.tokens[id]!];
  let beams: ArrayLike<number> = [];
  for (let step = 0; step < steps; step++) {
    const probabilities: number[] = [];
    const tokens: number[] = [];
    for (const beam of step === 0 ? [NO_NODE] : Array.from(beams)) {
      const all = softmax(await drafter.behind(pathTo(beam)));
      const order = [...all.keys()].sort((a, b) => all[b]! - all[a]!);
      for (const id of order.slice(0, topk)) {
        probabilities.push(all[id]!);
        tokens.push(targetId(id));
      }
    }
    beams = addStep(pool, step, { probabilities, tokens }, beams);
  }
  const tree = treeOfCandidates(pool, 0, selectCandidates(pool));
  return [...Array.from(tree.tokens).slice(1), ...Array.from(tree.parents).slice(1)];
}

function softmax(logits: ArrayLike<number>): Float64Array {
  const values = Float64Array.from(logits);
  const most = Math.max(...values);
  const weights = values.map((value) => Math.exp(value - most));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}
