/**
 * Numeric class mma128 as a layout has it: the tiles of an adapter, with the kernels that multiply by
 * them. An engine imports none of these kernels: `MatrixKernels` brings them along.
 *
 * @module
 */
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { MatrixKernelSet } from "../matrix_kernels.ts";
import type { MatrixTiles } from "./matrix/matrix_tiles.ts";
import type { WeightDtype } from "./weights/layout.ts";

/** Tiles, and the kernels that multiply by them. */
export interface MatrixClass extends MatrixTiles {
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

/** Where tiles come from: `matrixKernels`, which a caller that wants the class hands to the engine. */
export interface MatrixKernels {
  /** Those of the best of an adapter's products that gives the right numbers; undefined without any. */
  workingTiles(recorder: Recorder, use: MatrixUse): Promise<MatrixClass | undefined>;
}

/** The tiles that multiply these weights; undefined where that is left to class fma128. */
export function tilesOf(weight: {
  readonly dtype: WeightDtype;
  readonly coded?: boolean | undefined;
  readonly matrix?: MatrixClass | undefined;
}): MatrixClass | undefined {
  const { matrix, dtype, coded } = weight;
  // Weights in f32 are so for a reason, and codes meet codes, in sums that are exact.
  if (coded === true || (dtype === "f32" && matrix?.config.operand === "f16")) return undefined;
  return matrix;
}
