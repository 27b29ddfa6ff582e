/**
 * A SigLIP tower and the projector behind it, of tiles of one size.
 *
 * Sources: Zhai et al., "Sigmoid Loss for Language Image Pre-Training" (2023); Laurençon et al.,
 * "Building and better understanding vision-language models" (2024).
 *
 * @module
 */
import { pixelShuffle } from "../../../kernels/vision/pixel_shuffle.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Step } from "../../layers/batch.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import type { Linear } from "../../layers/linear.ts";
import { SiglipEncoder, TRANSFORMERS_NAMES } from "./siglip_encoder.ts";
import { patchesASide, type SquareShape } from "./vision_shape.ts";
import { strideOf, type VisionTensors, type VisionTower } from "./vision_tower.ts";
import { visionLinear } from "./vision_weights.ts";

export interface Idefics3Shape extends SquareShape {
  /** Patches of a side of the square that becomes one row. */
  readonly shuffle: number;
  /** Width of the text model's rows. */
  readonly textSize: number;
}

/** Rows that a tile becomes. */
export const tileRows = (shape: Idefics3Shape): number =>
  (patchesASide(shape) / shape.shuffle) ** 2;

export class Idefics3Tower implements VisionTower {
  readonly specs: readonly WeightSpec[];
  readonly layers: number;
  readonly textSize: number;
  readonly maxRows: number;
  readonly #shape: Idefics3Shape;
  readonly #memory: DeviceMemory;
  readonly #encoder: SiglipEncoder;
  readonly #projector: Linear;

  constructor(context: LayerContext, shape: Idefics3Shape) {
    const { hiddenSize, shuffle, textSize: rows } = shape;
    this.#shape = shape;
    this.#memory = context.memory;
    this.layers = shape.layers;
    this.textSize = rows;
    this.maxRows = tileRows(shape);
    this.#encoder = new SiglipEncoder(context, shape, TRANSFORMERS_NAMES);
    const projector = { rows, columns: shuffle ** 2 * hiddenSize, bias: false };
    this.#projector = visionLinear(context, "model.connector.modality_projection.proj", projector);
    this.specs = [...this.#encoder.specs, ...this.#projector.specs];
  }

  allocate() {
    const { hiddenSize, textSize } = this.#shape;
    const allocate = (elements: number, label: string) =>
      this.#memory.allocate("activations", elements * 4, label);
    const featureStride = strideOf(textSize);
    return {
      encoder: this.#encoder.allocate(),
      shuffled: allocate(patchesASide(this.#shape) ** 2 * hiddenSize, "shuffled patches"),
      features: allocate(this.maxRows * featureStride, "features"),
      featureStride,
    };
  }

  compile(plan: Plan<Step>): VisionTensors {
    const { recorder } = plan;
    const { hiddenSize: cols, shuffle: scale } = this.#shape;
    const side = patchesASide(this.#shape);
    const { encoder, shuffled, features, featureStride } = this.allocate();
    const encoded = this.#encoder.compile(plan, encoder, "vision.post_norm");
    const shuffle = pixelShuffle(recorder, { x: encoded.normed, out: shuffled, cols, side, scale });
    const project = this.#projector.bind(recorder, {
      x: shuffled,
      xStride: scale ** 2 * cols,
      out: features,
      outStride: featureStride,
      phase: "decode",
    });
    plan.add(shuffle);
    plan.tap("connector.shuffled", shuffled);
    plan.add(() => project(this.maxRows));
    plan.tap("projector.out", features);
    const { patches, patchStride } = encoded;
    const rows = { patches: side ** 2, rows: this.maxRows };
    return { patches, patchStride, features, featureStride, begin: () => rows };
  }
}
