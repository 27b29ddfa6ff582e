/**
 * What the checks of both expert kernels of class mma128 share.
 *
 * @module
 */
import type { Tensor } from "../../../src/gpu/tensor.ts";
import type { Mutant } from "../../check.ts";
import {
  emulatedTiles,
  MATRIX_CONFIGS,
  type MatrixConfigName,
} from "../../linear/checks/check_matrix.ts";
import { TILE_ROWS } from "../../linear/matrix/matrix_tiles.ts";

type Tuning = Readonly<Record<string, number>>;

/** Tiles of both sizes, and workgroups of fewer subgroups than there is work for. */
export const MATRIX_EXPERT_TUNINGS: readonly Tuning[] = [
  { tile: 16 },
  { tile: 64 },
  { tile: 16, workgroup: 256, subgroups: 2 },
];

export const tileOf = ({ tile }: Tuning) => TILE_ROWS.find((size) => size === tile)!;

/** All rows of a check are of the class. */
export function matrixOptions(
  config: MatrixConfigName,
  tuning: Tuning,
  tensors: Readonly<Record<string, Tensor>>,
) {
  return {
    tiles: { ...emulatedTiles(MATRIX_CONFIGS[config], tuning), decode: true },
    tileList: tensors[`tiles_${tileOf(tuning)}`]!,
    sortedPairs: tensors.sorted_pairs!,
  };
}

/** Faults in the work list and in where an expert's weights lie. Case 0 has int4 weights and biases. */
export const MATRIX_TILE_MUTANTS: readonly Mutant[] = [
  { name: "the first expert is 0", replace: "tile.x - params.first_expert", with: "tile.x" },
  {
    name: "every expert is in every slab",
    replace: "pair_tile.expert >= params.expert_count",
    with: "pair_tile.expert >= 3u",
  },
  {
    name: "granules of expert 0",
    replace: "tile.expert * weight_granules()",
    with: "0u * weight_granules()",
  },
  {
    name: "scales and zero points of expert 0",
    replace: "return expert_scales(tile.pairs, vec4u(expert_row(tile, n))).x;",
    with: "return first_scales(vec4u(expert_row(tile, n))).x;",
  },
  {
    name: "the bias of expert 0",
    replace: "pair_tile.expert * params.rows_padded",
    with: "0u * params.rows_padded",
  },
  {
    name: "a tile is one pair",
    replace: "if pair < pair_tile.count",
    with: "if pair < 1u",
  },
  { name: "the first pairs of a tile", replace: "pair_tile, pair)", with: "pair_tile, t)" },
  { name: "pairs are read too close", replace: "* params.x_stride", with: "* params.columns" },
  { name: "pairs are written too close", replace: "* params.out_stride", with: "* 37u" },
];
