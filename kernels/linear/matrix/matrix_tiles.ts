/**
 * Numeric class mma128: products of tiles through the subgroup matrices that an adapter has, which
 * are an experiment of Dawn (`chromium_experimental_subgroup_matrix`). Its kernels are for those alone
 * who bring them along: `MatrixClass`.
 *
 * @module
 */
import type { Constants } from "../../../src/gpu/kernel.ts";

/** Activation rows of a workgroup: the first that hold all rows, or the last. */
export const TILE_ROWS = [16, 64] as const;

export type TileRows = (typeof TILE_ROWS)[number];

/** Sizes and types of the products that kernels are built of: `m` by `k` times `k` by `n`, in f32. */
export interface MatrixConfig {
  readonly operand: "f32" | "f16";
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

/** How kernels of class mma128 are built. */
export interface MatrixTiles {
  readonly config: MatrixConfig;
  /** Invocations of a workgroup of attention. */
  readonly workgroup: number;
  /** Subgroups that these are at least. */
  readonly subgroups: number;
  /** Invocations of a workgroup of a linear. */
  readonly linearWorkgroup: number;
  /** The functions of matrix_tiles.wgsl. */
  readonly text: string;
  /** Of that text. */
  readonly constants: Constants;
  /** Whether generated rows run this class too, and not prompt rows alone. */
  readonly decode: boolean;
}
