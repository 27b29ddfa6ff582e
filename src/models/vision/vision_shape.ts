/**
 * What a vision tower is, in the numbers of its config.
 *
 * @module
 */
import { FULL_ATTENTION_MAX_HEAD } from "../../../kernels/vision/full_attention.ts";
import type { GeluForm } from "../../../kernels/vision/gelu.ts";
import type { ConfigReader } from "../../checkpoint/config.ts";
import { MAX_LAYERS } from "../config/size_limits.ts";

export interface VisionShape {
  readonly hiddenSize: number;
  readonly intermediate: number;
  readonly layers: number;
  readonly heads: number;
  readonly normEps: number;
  /** Between the linears of an MLP that is not gated. */
  readonly activation: GeluForm;
  /** Pixels of a side of a patch. */
  readonly patchSide: number;
}

/** Of a tower that sees squares of one size. */
export interface SquareShape extends VisionShape {
  /** Pixels of a side of a picture. */
  readonly imageSide: number;
}

/** Patches of a picture's side. */
export const patchesASide = ({
  imageSide,
  patchSide,
}: Pick<SquareShape, "imageSide" | "patchSide">): number => imageSide / patchSide;

/** Elements that kernels load at once. */
const VECTOR = 4;
export const MAX_WIDTH = 16384;
const MAX_IMAGE_SIDE = 4096;
/** Patches of a picture: one launch has them all. */
const MAX_PATCHES = 16384;

const ACTIVATIONS: Readonly<Record<string, GeluForm>> = {
  gelu_pytorch_tanh: "tanh",
  quick_gelu: "quick",
  gelu: "erf",
};

/** What the files of a family leave out. */
export interface TowerDefaults {
  readonly hiddenSize: number;
  readonly heads: number;
  readonly normEps: number;
  /** Names of activations that there are, what an absent one is first. */
  readonly activations: readonly [string, ...string[]];
}

export const SIGLIP: TowerDefaults = {
  hiddenSize: 1152,
  heads: 16,
  normEps: 1e-6,
  activations: ["gelu_pytorch_tanh"],
};

export const CLIP: TowerDefaults = {
  hiddenSize: 768,
  heads: 12,
  normEps: 1e-5,
  activations: ["quick_gelu", "gelu"],
};

/**
 * Reads the `vision_config` of a tower as the transformers library writes it.
 *
 * @throws {CheckpointError | UnsupportedError} naming the field.
 */
export function readSquareShape(config: ConfigReader, defaults: TowerDefaults): SquareShape {
  const size = (field: string, fallback: number, max = MAX_WIDTH) =>
    config.integer(field, { min: 1, max, fallback });
  const activation = ACTIVATIONS[config.only("hidden_act", defaults.activations)]!;
  config.only("num_channels", [3]);
  const shape = {
    hiddenSize: size("hidden_size", defaults.hiddenSize),
    heads: size("num_attention_heads", defaults.heads),
    imageSide: size("image_size", 224, MAX_IMAGE_SIDE),
    patchSide: size("patch_size", 32, MAX_IMAGE_SIDE),
    intermediate: size("intermediate_size", 3072),
    layers: size("num_hidden_layers", 12, MAX_LAYERS),
    normEps: config.number("layer_norm_eps", { min: 0, fallback: defaults.normEps }),
    activation,
  };
  requireHeads(config, "num_attention_heads", shape);
  requirePatches(config, shape);
  return shape;
}

/**
 * Reads that of a SigLIP tower of the timm library.
 *
 * @throws {CheckpointError | UnsupportedError} naming the field.
 */
export function readTimmShape(config: ConfigReader): SquareShape {
  const size = (field: string, fallback: number, max = MAX_WIDTH) =>
    config.integer(field, { min: 1, max, fallback });
  const hiddenSize = size("width", 1152);
  const ratio = config.number("mlp_ratio", { min: 0, max: 16, fallback: 3.7362 });
  const shape: SquareShape = {
    hiddenSize,
    heads: size("heads", 16),
    imageSide: size("image_size", 384, MAX_IMAGE_SIDE),
    patchSide: size("patch_size", 14, MAX_IMAGE_SIDE),
    intermediate: Math.trunc(hiddenSize * ratio),
    layers: size("layers", 27, MAX_LAYERS),
    normEps: 1e-6,
    activation: "tanh",
  };
  if (shape.intermediate < 1) throw config.error("mlp_ratio", "its MLP has no columns");
  requireHeads(config, "heads", shape);
  // Pixels of a side that are no whole patch are not seen.
  const { imageSide, patchSide } = shape;
  const whole = { ...shape, imageSide: imageSide - (imageSide % patchSide) };
  requirePatches(config, whole);
  return whole;
}

/** @throws {CheckpointError} when a head is none that the kernel has registers for. */
export function requireHeads(
  config: ConfigReader,
  field: string,
  { hiddenSize, heads }: Pick<VisionShape, "hiddenSize" | "heads">,
): void {
  const headDim = hiddenSize / heads;
  if (headDim % VECTOR === 0 && headDim <= FULL_ATTENTION_MAX_HEAD) return;
  const rule = `a multiple of ${VECTOR} up to ${FULL_ATTENTION_MAX_HEAD}`;
  throw config.error(field, `they make ${headDim} elements each, not ${rule}`);
}

function requirePatches(config: ConfigReader, shape: SquareShape): void {
  const side = patchesASide(shape);
  if (side > 0 && Number.isInteger(side) && side ** 2 <= MAX_PATCHES) return;
  const rule = `it must be up to ${Math.sqrt(MAX_PATCHES)} times patch_size ${shape.patchSide}`;
  throw config.error("image_size", `${rule}, not ${shape.imageSide}`);
}
