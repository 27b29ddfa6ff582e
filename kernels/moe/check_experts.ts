/**
 * Experts for the checks of kernels over routed pairs: random weights in two slabs, and pairs in
 * both forms of the work list.
 *
 * @module
 */

import type { Tensor } from "../../src/gpu/tensor.ts";
import type { HostArrays, Mutant } from "../check.ts";
import { randomBias, randomWeight, unpackWeight } from "../linear/check_weights.ts";
import {
  type ExpertWeights,
  type GroupColumns,
  paddedRows,
  scaleWords,
  type WeightDtype,
  type WeightShape,
} from "../linear/layout.ts";

/** Pairs of a tile. */
export const TILE_SIZE = 4;
export const LANES = 8;

export interface ExpertShape {
  readonly dtype: WeightDtype;
  readonly rows: number;
  readonly slots: number;
  /** Experts of the two slabs. */
  readonly slabs: readonly [number, number];
  readonly groupColumns?: GroupColumns;
  readonly bias?: boolean;
}

/** Experts that the rows can choose. */
export const chosenAtMost = ({ rows, slots, slabs: [first, second] }: ExpertShape): number =>
  Math.min(rows * slots, first + second);

/** `words0`, `words1` and, where there are any, `scales0`, `scales1`, `bias0`, `bias1`. */
export function randomExperts(
  { slabs, bias }: ExpertShape,
  matrix: WeightShape,
  random: () => number,
): Record<string, Uint32Array | Float32Array> {
  const arrays: Record<string, Uint32Array | Float32Array> = {};
  slabs.forEach((count, s) => {
    const parts = Array.from({ length: count }, () => randomWeight(matrix, random));
    arrays[`words${s}`] = Uint32Array.from(parts.flatMap(({ words }) => [...words]));
    if (scaleWords(matrix) > 0) {
      arrays[`scales${s}`] = Uint32Array.from(parts.flatMap(({ scales }) => [...scales]));
    }
    if (bias) {
      arrays[`bias${s}`] = Float32Array.from(parts.flatMap(() => [...randomBias(matrix, random)]));
    }
  });
  return arrays;
}

/** The matrix of each expert as numbers. */
export function unpackExperts(
  { slabs }: ExpertShape,
  matrix: WeightShape,
  inputs: HostArrays,
): Float64Array[] {
  return slabs.flatMap((count, s) => {
    const words = inputs[`words${s}`] as Uint32Array;
    const scales = (inputs[`scales${s}`] ?? new Uint32Array()) as Uint32Array;
    const size = words.length / count;
    const scaleCount = scales.length / count;
    return Array.from({ length: count }, (_, e) =>
      unpackWeight(matrix, {
        words: words.subarray(e * size, (e + 1) * size),
        scales: scales.subarray(e * scaleCount, (e + 1) * scaleCount),
      }),
    );
  });
}

/** The bias of each expert's rows; zeros where there is none. */
export function expertBiases(
  { slabs }: ExpertShape,
  { rows, lanes }: WeightShape,
  inputs: HostArrays,
): Float32Array[] {
  const padded = paddedRows(rows, lanes);
  return slabs.flatMap((count, s) =>
    Array.from({ length: count }, (_, e) => {
      const all = inputs[`bias${s}`] as Float32Array | undefined;
      return all?.subarray(e * padded, (e + 1) * padded) ?? new Float32Array(padded);
    }),
  );
}

/** The slabs that `randomExperts` made. */
export function expertWeights(
  { slabs }: ExpertShape,
  matrix: WeightShape,
  tensors: Readonly<Record<string, Tensor>>,
): ExpertWeights {
  const [first, second] = slabs;
  const made = slabs.map((expertCount, s) => {
    const scales = tensors[`scales${s}`];
    const firstExpert = s === 0 ? 0 : first;
    const bias = tensors[`bias${s}`];
    const words = tensors[`words${s}`]!;
    return { firstExpert, expertCount, words, ...(scales && { scales }), ...(bias && { bias }) };
  });
  // The first slab comes last, so that what it writes in place of the other stays.
  const expertCount = first + second;
  return { ...matrix, expertCount, slabs: made.reverse() };
}

/** `experts` of every pair, and the same sorted and cut in tiles. */
export function randomPairs(
  { rows, slots, slabs }: ExpertShape,
  random: () => number,
): Record<string, Uint32Array> {
  const pairs = rows * slots;
  const expertCount = slabs[0] + slabs[1];
  const experts = Uint32Array.from({ length: pairs }, () => Math.floor(random() * expertCount));
  const sorted: number[] = [];
  const tiles: number[] = [];
  for (let expert = 0; expert < expertCount; expert++) {
    const chosen = [...experts.keys()].filter((pair) => experts[pair] === expert);
    for (let i = 0; i < chosen.length; i += TILE_SIZE) {
      tiles.push(expert, sorted.length + i, Math.min(TILE_SIZE, chosen.length - i), 0);
    }
    sorted.push(...chosen);
  }
  // Tiles beyond the last are of an earlier step: here, the last pairs went to expert 0.
  const stale = [0, Math.max(pairs - TILE_SIZE, 0), TILE_SIZE, 0];
  const list = Uint32Array.from([tiles.length / 4, 0, 0, 0, ...tiles, ...stale, ...stale]);
  return { experts, sorted_pairs: Uint32Array.from(sorted), tiles: list };
}

/** Faults in what both expert kernels share: the work list and where an expert's weights lie. Case 2
 * has int4 weights and biases. */
export const TILE_MUTANTS: readonly Mutant[] = [
  { name: "the first expert is 0", replace: "tile.x - params.first_expert", with: "tile.x" },
  {
    name: "every expert is in every slab",
    replace: "tile.expert >= params.expert_count",
    with: "tile.expert >= 3u",
  },
  { name: "surplus tiles run", replace: "if index >= tiles[0].x", with: "if index >= 99u" },
  {
    name: "pairs are not looked up",
    replace: "return pairs[index];",
    with: "return index;",
  },
  { name: "a tile is one pair", replace: "if first_pair + t < tile.count", with: "if t < 1u" },
  {
    name: "granules of expert 0",
    replace: "tile.expert * expert_granules()",
    with: "0u * expert_granules()",
  },
  {
    name: "scales of expert 0",
    replace: "tile.expert * expert_scales()",
    with: "0u * expert_scales()",
  },
  {
    name: "the bias of expert 0",
    replace: "tile.expert * params.rows_padded",
    with: "0u * params.rows_padded",
    case: 2,
  },
  {
    name: "one word of scales for a block",
    replace: "blocks * BLOCK_SCALE_WORDS",
    with: "blocks",
    case: 2,
  },
  { name: "the bias is dropped", replace: "sums[t] + addend", with: "sums[t]", case: 2 },
  {
    name: "experts are not padded",
    replace: "return params.rows_padded / LANES *",
    with: "return params.outputs / LANES *",
  },
  {
    name: "pairs of another expert",
    replace: "pairs[index] - params",
    with: "pairs[0] - params",
    tuning: 1,
  },
];
