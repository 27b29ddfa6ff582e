/**
 * Numeric class mma128: products of tiles through the subgroup matrices that an adapter has, which
 * are an experiment of Dawn (`chromium_experimental_subgroup_matrix`). Never chosen silently, and its
 * kernels are for those alone who choose it: `MatrixTiles` brings them along.
 *
 * @module
 */
import type { Constants } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { MatrixKernelSet } from "../matrix_kernels.ts";
import type { InputForm, WeightForm } from "./weight_kernel.ts";

/** Activation rows of a workgroup: the first that hold all rows, or the last. */
export const TILE_ROWS = [16, 32] as const;

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
  /** Invocations of a workgroup. */
  readonly workgroup: number;
  /** Subgroups that these are at least. */
  readonly subgroups: number;
  /** The functions of common/matrix_tiles.wgsl. */
  readonly text: string;
  /** Of that text. */
  readonly constants: Constants;
  /** Whether generated rows run this class too, and not prompt rows alone. */
  readonly decode: boolean;
  readonly kernels: MatrixKernelSet;
}

/** Sizes of latent attention: elements of a latent, and of a rope part. */
export interface LatentSizes {
  readonly latent: number;
  readonly rope: number;
}

/** What tiles are wanted for, and so tried in. */
export interface MatrixUse {
  /** Whether generated rows run this class too, and not prompt rows alone. */
  readonly decode: boolean;
  /** Of the model, where its attention is latent. */
  readonly latents?: LatentSizes | undefined;
}

/** Where tiles come from: `matrixKernels`, which who wants the class hands to the engine. */
export interface MatrixKernels {
  /** Those of the best of an adapter's products that gives the right numbers; undefined without any. */
  workingTiles(recorder: Recorder, use: MatrixUse): Promise<MatrixTiles | undefined>;
}

/** The tiles that multiply these weights; undefined where that is left to class fma128. */
export function tilesOf(weight: WeightForm & InputForm): MatrixTiles | undefined {
  const { matrix, dtype, coded } = weight;
  // Weights in f32 are so for a reason, and codes meet codes, in sums that are exact.
  if (coded === true || (dtype === "f32" && matrix?.config.operand === "f16")) return undefined;
  return matrix;
}
