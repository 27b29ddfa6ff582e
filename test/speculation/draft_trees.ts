/** Trees of drafts that tests look at: the shared golden cases, and the specification's example. */

import { sharedJson } from "../text/shared_data.ts";

export interface TreeCase {
  readonly name: string;
  readonly topk: number;
  readonly num_steps: number;
  readonly num_draft_tokens: number;
  readonly seq_len: number;
  readonly verified_id: number;
  readonly steps: readonly { readonly p: number[][]; readonly ids: number[][] }[];
  readonly expect: {
    readonly pool_scores: number[];
    readonly beams: number[][];
    readonly selected: number[];
    readonly tokens: number[];
    readonly parents: number[];
    readonly depths: number[];
    readonly positions: number[];
    readonly mask: string[];
    readonly next_token: number[];
    readonly next_sibling: number[];
  };
  readonly greedy: readonly {
    readonly note: string;
    readonly target: number[];
    readonly accepted_nodes: number[];
    readonly output: number[];
    readonly num_accepted_drafts: number;
  }[];
}

export interface SamplingCase {
  readonly name: string;
  readonly parents: number[];
  readonly tokens: number[];
  readonly next_token: number[];
  readonly next_sibling: number[];
  readonly threshold_single: number;
  readonly threshold_acc: number;
  readonly target_probs: number[][];
  readonly coins: number[];
  readonly final_coin: number;
  readonly expect: {
    readonly accepted_nodes: number[];
    readonly output: number[];
    readonly num_accepted_drafts: number;
  };
}

export interface GoldenTrees {
  readonly trees: readonly TreeCase[];
  readonly sampling: readonly SamplingCase[];
  readonly errors: readonly {
    readonly note: string;
    readonly topk: number;
    readonly num_steps: number;
    readonly num_draft_tokens: number;
    readonly largest_num_draft_tokens: number;
  }[];
}

/** The golden cases beside the project. */
export function goldenTrees(): GoldenTrees {
  return sharedJson<GoldenTrees>("speculative/trees.json");
}

/** The worked example: two beams, three steps, five drafts. */
export const WORKED: TreeCase = {
  name: "worked",
  topk: 2,
  num_steps: 3,
  num_draft_tokens: 6,
  seq_len: 7,
  verified_id: 10,
  steps: [
    { p: [[0.6, 0.3]], ids: [[11, 12]] },
    {
      p: [
        [0.55, 0.25],
        [0.9, 0.05],
      ],
      ids: [
        [21, 22],
        [23, 24],
      ],
    },
    {
      p: [
        [0.8, 0.1],
        [0.4, 0.3],
      ],
      ids: [
        [31, 32],
        [33, 34],
      ],
    },
  ],
  expect: {
    pool_scores: [0.6, 0.3, 0.33, 0.15, 0.27, 0.015, 0.264, 0.033, 0.108, 0.081],
    beams: [
      [0, 1],
      [2, 4],
      [6, 8],
    ],
    selected: [0, 1, 2, 4, 6],
    tokens: [10, 11, 12, 21, 23, 31],
    parents: [-1, 0, 0, 1, 2, 3],
    depths: [0, 1, 1, 2, 2, 3],
    positions: [7, 8, 8, 9, 9, 10],
    mask: ["100000", "110000", "101000", "110100", "101010", "110101"],
    next_token: [1, 3, 4, 5, -1, -1],
    next_sibling: [-1, 2, -1, -1, -1, -1],
  },
  greedy: [
    {
      note: "agreement below a refused parent counts for nothing",
      target: [12, 21, 23, 31, 90, 91],
      accepted_nodes: [0, 2, 4],
      output: [12, 23, 90],
      num_accepted_drafts: 2,
    },
    {
      note: "the deepest path",
      target: [11, 21, 0, 31, 0, 92],
      accepted_nodes: [0, 1, 3, 5],
      output: [11, 21, 31, 92],
      num_accepted_drafts: 3,
    },
  ],
};
