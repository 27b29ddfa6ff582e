/**
 * The trees of drafts that steps ought to make, from what the model that drafts says behind each path.
 *
 * @module
 */
import { expect } from "vitest";
import { NO_NODE } from "../../src/speculation/draft_tree.ts";
import type { DraftTreeShape } from "../../src/speculation/draft_tree_shape.ts";
import {
  addStep,
  draftPool,
  selectCandidates,
  treeOfCandidates,
} from "../speculation/draft_candidates.ts";
import type { ModelSession, SessionSequence } from "../support/engines/model_session.ts";

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

/**
 * Has a model that makes trees of such a shape compute sequences that have begun with nothing, and
 * verify trees behind them whose right path is not their first: what comes of that are the expected
 * trees.
 *
 * @param treeBehind The tree expected behind tokens, of which the last is the newest.
 */
export async function expectTrees(
  session: ModelSession,
  sequences: readonly SessionSequence[],
  { steps, topk }: DraftTreeShape,
  treeBehind: (tokens: readonly number[]) => Promise<number[]>,
): Promise<void> {
  const settings = { steps, ahead: 2 * steps * topk };
  const prompts = sequences.map((sequence) => {
    return { sequence, phase: "prefill", count: sequence.tokens.length } as const;
  });
  const first = await session.draft(prompts, settings);
  let at = -1;
  for (const [i, { tokens }] of sequences.entries()) {
    at += tokens.length;
    tokens.push(first.tokens[at]!);
    expect([...first.drafts[i]!]).toEqual(await treeBehind(tokens));
  }
  // Twice, so that the second tree sees the entries that the first has moved.
  for (let round = 0; round < 2; round++) {
    const verified = (right: readonly number[]) => {
      const trees = sequences.map((sequence, i) => {
        const nodes = [sequence.tokens.at(-1)!, right[i]! + 1, right[i]!, right[i]!, 7];
        return { sequence, phase: "verify", parents: [-1, 0, 0, 1, 2], tokens: nodes } as const;
      });
      return session.draft(trees, settings);
    };
    // Of these every draft is wrong, and tells what is right.
    const { tokens } = await verified(sequences.map(() => 0));
    const right = sequences.map((_, i) => tokens[5 * i]!);
    const next = await verified(right);
    for (const [i, sequence] of sequences.entries()) {
      sequence.tokens.push(right[i]!, next.tokens[5 * i + 2]!);
      sequence.computed += 2;
      expect([...next.drafts[i]!]).toEqual(await treeBehind(sequence.tokens));
    }
  }
}
