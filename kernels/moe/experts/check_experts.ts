/**
 * Experts for the checks of kernels over routed pairs: random weights in two slabs, and pairs in
 * both forms of the work list.
 *
 * @module
 */

import type { Tensor } from "../../../src/gpu/tensor.ts";
import { PLAIN_TUNING, TUNING_CHOICES } from "../../../src/gpu/tuning.ts";
import type { HostArrays, Mutant } from "../../check.ts";
import { FORMS_OF_ROWS, formsOf } from "../../linear/checks/check_forms.ts";
import {
  type CheckOrder,
  randomBias,
  randomWeight,
  unpackWeight,
} from "../../linear/checks/check_weights.ts";
import type { ExpertWeights, LinearLayout } from "../../linear/linear_layout.ts";
import { TILE_ROWS } from "../../linear/matrix/matrix_tiles.ts";
import {
  type GroupColumns,
  scaleWords,
  subgroupsOf,
  type WeightDtype,
  type WeightShape,
} from "../../linear/weights/layout.ts";
import { paddedRows } from "../../linear/weights/weight_order.ts";

/** Pairs of a tile that is not staged, where a tuning does not say. */
const TILE_SIZE = 4;
/** A tile of two pairs that share nothing out, as a tuning without a form of two rows has it. */
const TWO_PAIRS = { tokens: 2, split: 1, workgroup: 8, staged: 0, ownTokens: 4 };
/** The forms that launches over tiles of few pairs have. */
export const TILE_FORMS = [TWO_PAIRS, ...FORMS_OF_ROWS].filter(
  ({ tokens, staged }) => staged === 0 && TUNING_CHOICES.pairTile.some((size) => size === tokens),
);
/** The forms of the table that launches over pairs and over tiles have. */
const EXPERT_FORMS = [
  ...TILE_FORMS,
  ...FORMS_OF_ROWS.filter(({ tokens, staged }) => tokens === 1 || staged === 1),
].sort((a, b) => Number(a.tokens === 1) - Number(b.tokens === 1));
const TILE_SIZES = [...new Set([...EXPERT_FORMS.map(tileSizeOf), ...TILE_ROWS])];

export interface ExpertShape extends CheckOrder {
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
  matrix: WeightShape,
  inputs: HostArrays,
): Float32Array[] {
  const padded = paddedRows(matrix.rows, matrix);
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

type Tuning = Readonly<Record<string, number>>;

/** Pairs of a tile, where a check's tuning has a form for tiles. */
export function tileSizeOf({ tokens = TILE_SIZE }: Tuning): number {
  return tokens === 1 ? TILE_SIZE : tokens;
}

export const tilesName = (size: number) => (size === TILE_SIZE ? "tiles" : `tiles_${size}`);

/** The work list and the forms that a check's tuning asks for. */
export function tileOptions(tuning: Tuning, tensors: Readonly<Record<string, Tensor>>) {
  const { staged = 0, split = 1, workgroup = 8, ownTokens = 4 } = tuning;
  const size = tileSizeOf(tuning);
  const tile = { tokens: size, split, workgroup, staged, ownTokens };
  return {
    tiles: tensors[tilesName(size)]!,
    tileSizes: [size],
    forms: [{ tokens: 1, split, workgroup }, tile].flatMap(formsOf),
  };
}

/** `experts` of every pair, and the same sorted and cut in tiles of each size. */
export function randomPairs(
  { rows, slots, slabs }: ExpertShape,
  random: () => number,
): Record<string, Uint32Array> {
  const pairs = rows * slots;
  const expertCount = slabs[0] + slabs[1];
  const experts = Uint32Array.from({ length: pairs }, () => Math.floor(random() * expertCount));
  const chosen = Array.from({ length: expertCount }, (_, expert) =>
    [...experts.keys()].filter((pair) => experts[pair] === expert),
  );
  const lists = TILE_SIZES.map((size) => [tilesName(size), tileList(chosen, size)]);
  return {
    experts,
    sorted_pairs: Uint32Array.from(chosen.flat()),
    ...(Object.fromEntries(lists) as Record<string, Uint32Array>),
  };
}

function tileList(chosen: readonly (readonly number[])[], size: number): Uint32Array {
  const tiles: number[] = [];
  let first = 0;
  chosen.forEach(({ length }, expert) => {
    for (let i = 0; i < length; i += size) {
      tiles.push(expert, first + i, Math.min(size, length - i), 0);
    }
    first += length;
  });
  // Tiles beyond the last are of an earlier step: here, the last pairs went to expert 0.
  const most = Math.min(size, first);
  const stale = [0, first - most, most, 0];
  return Uint32Array.from([tiles.length / 4, 0, 0, 0, ...tiles, ...stale, ...stale]);
}

/** What the checks of both expert kernels run. */
export const EXPERT_TUNINGS: readonly Tuning[] = [
  ...EXPERT_FORMS.map((form) => ({ sorted: form.tokens === 1 ? 0 : 1, ...form })),
  { sorted: 1, subgroups: 1 },
  { sorted: 1, sequential: 1 },
  { sorted: 1, sequential: 1, subgroups: 1 },
];
/** The layout that such a check's tuning asks for. */
export function layoutOf(tuning: Tuning, device: GPUDevice): Partial<LinearLayout> {
  const { subgroups = 0, sequential = 0, pairTile = TILE_SIZE } = tuning;
  return {
    ...(subgroups === 1 && subgroupsOf(device)),
    tuning: { ...PLAIN_TUNING, sequential: sequential === 1, pairTile },
  };
}
const SKIPPING = EXPERT_TUNINGS.length - 2;
const tuningOf = (wanted: (form: (typeof EXPERT_FORMS)[number]) => boolean) =>
  EXPERT_FORMS.findIndex(wanted);

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
  {
    name: "all invocations have the first pairs of a tile",
    replace: "first_token(0u, invocation)",
    with: "0u",
    tuning: tuningOf(({ staged }) => staged === 1),
  },
  { name: "a tile is one pair", replace: "if first_pair + t < tile.count", with: "if t < 1u" },
  {
    name: "the last pair of a tile is left out",
    replace: "t < wanted_tokens",
    with: "t + 1u < wanted_tokens",
    tuning: SKIPPING,
  },
  {
    name: "pairs that share no loads are left out",
    replace: "is_wanted(i * ROWS_AT_ONCE)",
    with: "is_wanted(i * ROWS_AT_ONCE + 2u)",
    tuning: SKIPPING + 1,
    ofSubgroups: true,
  },
  {
    name: "granules of expert 0",
    replace: "tile.expert * weight_granules()",
    with: "0u * weight_granules()",
  },
  {
    name: "scales of expert 0",
    replace: "tile.expert * weight_scales()",
    with: "0u * weight_scales()",
  },
  {
    name: "the bias of expert 0",
    replace: "tile.expert * params.rows_padded",
    with: "0u * params.rows_padded",
    case: 2,
  },
  {
    name: "one word of scales for a block",
    replace: "rows_padded * (column_blocks() * BLOCK_SCALE_WORDS)",
    with: "rows_padded * column_blocks()",
    case: 2,
  },
  {
    name: "the bias is dropped",
    replace: "return vec4f(bias[row.x], bias[row.y], bias[row.z], bias[row.w]);",
    with: "return vec4f();",
    case: 2,
  },
  {
    name: "experts are not padded",
    replace: "return params.rows_padded * (column_blocks() * BLOCK_GRANULES",
    with: "return params.outputs * (column_blocks() * BLOCK_GRANULES",
  },
  {
    name: "pairs of another expert",
    replace: "pairs[index] - params",
    with: "pairs[0] - params",
    tuning: tuningOf(({ tokens }) => tokens === 1),
  },
];
