/**
 * What a vision tower is, in the numbers of its config.
 *
 * @module
 */
import { FULL_ATTENTION_MAX_HEAD } from "../../../kernels/vision/full_attention.ts";
import type { ConfigReader } from "../../checkpoint/config.ts";
import { MAX_LAYERS } from "../config/size_limits.ts";

export interface VisionShape {
  readonly hiddenSize: number;
  readonly intermediate: number;
  readonly layers: number;
  readonly heads: number;
  readonly normEps: number;
  /** Pixels of a side of a picture, and of a patch. */
  readonly imageSide: number;
  readonly patchSide: number;
}

/** Patches of a picture's side. */
export const patchesASide = ({ imageSide, patchSide }: VisionShape): number =>
  imageSide / patchSide;

/** Elements that kernels load at once. */
const VECTOR = 4;
const MAX_WIDTH = 16384;
const MAX_IMAGE_SIDE = 4096;
/** Patches of a picture: one launch has them all. */
const MAX_PATCHES = 16384;

/**
 * Reads the `vision_config` of a SigLIP tower, with the defaults that its files leave out.
 *
 * @throws {CheckpointError | UnsupportedError} naming the field.
 */
export function readSiglip(config: ConfigReader): VisionShape {
  const size = (field: string, fallback: number, max = MAX_WIDTH) =>
    config.integer(field, { min: 1, max, fallback });
  config.only("hidden_act", ["gelu_pytorch_tanh"]);
  config.only("num_channels", [3]);
  const hiddenSize = size("hidden_size", 1152);
  const heads = size("num_attention_heads", 16);
  const imageSide = size("image_size", 224, MAX_IMAGE_SIDE);
  const patchSide = size("patch_size", 32, MAX_IMAGE_SIDE);
  const headDim = hiddenSize / heads;
  if (headDim % VECTOR !== 0 || headDim > FULL_ATTENTION_MAX_HEAD) {
    const rule = `a multiple of ${VECTOR} up to ${FULL_ATTENTION_MAX_HEAD}`;
    throw config.error("num_attention_heads", `they make ${headDim} elements each, not ${rule}`);
  }
  if (imageSide % patchSide !== 0 || (imageSide / patchSide) ** 2 > MAX_PATCHES) {
    const rule = `it must be up to ${Math.sqrt(MAX_PATCHES)} times patch_size ${patchSide}`;
    throw config.error("image_size", `${rule}, not ${imageSide}`);
  }
  return {
    hiddenSize,
    heads,
    imageSide,
    patchSide,
    intermediate: size("intermediate_size", 3072),
    layers: size("num_hidden_layers", 12, MAX_LAYERS),
    normEps: config.number("layer_norm_eps", { min: 0, fallback: 1e-6 }),
  };
}
