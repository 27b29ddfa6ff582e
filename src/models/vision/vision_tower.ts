/**
 * A SigLIP tower and the projector behind it: patches of a picture to rows that a text model reads in
 * place of token embeddings.
 *
 * Sources: Zhai et al., "Sigmoid Loss for Language Image Pre-Training" (2023); Laurençon et al.,
 * "Building and better understanding vision-language models" (2024).
 *
 * @module
 */
import { layerNorm } from "../../../kernels/vision/layer_norm.ts";
import { pixelShuffle } from "../../../kernels/vision/pixel_shuffle.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import type { Linear } from "../../layers/linear.ts";
import { type VectorWeight, vectorWeight } from "../../layers/weights/vector_weight.ts";
import {
  type NormWeights,
  normSpecs,
  normWeights,
  VisionLayer,
  type VisionRows,
  visionLinear,
} from "./vision_layer.ts";
import { patchesASide, type VisionShape } from "./vision_shape.ts";

export interface TowerShape extends VisionShape {
  /** Patches of a side of the square that becomes one row. */
  readonly shuffle: number;
  /** Width of the text model's rows. */
  readonly textSize: number;
}

/** What a compiled tower reads and writes. */
export interface VisionTensors {
  /** `[patches, patchStride]` f32: each by channel, row and column, normalized */
  readonly patches: Tensor;
  readonly patchStride: number;
  /** `[imageTokens, featureStride]` f32 */
  readonly features: Tensor;
  readonly featureStride: number;
}

/** Rows that a picture becomes. */
export const imageTokens = (shape: TowerShape): number =>
  (patchesASide(shape) / shape.shuffle) ** 2;

/** Elements from one row to the next: linears read four at once. */
const strideOf = (width: number): number => Math.ceil(width / 4) * 4;

export class VisionTower {
  readonly shape: TowerShape;
  readonly specs: readonly WeightSpec[];
  readonly #memory: DeviceMemory;
  readonly #patches: Linear;
  readonly #positions: VectorWeight;
  readonly #layers: readonly VisionLayer[];
  readonly #norm: NormWeights;
  readonly #projector: Linear;

  constructor(context: LayerContext, shape: TowerShape) {
    const { memory } = context;
    const { hiddenSize, patchSide, shuffle, textSize: rows } = shape;
    const tower = "model.vision_model";
    this.shape = shape;
    this.#memory = memory;
    const columns = 3 * patchSide ** 2;
    const patches = { rows: hiddenSize, columns, bias: true };
    this.#patches = visionLinear(context, `${tower}.embeddings.patch_embedding`, patches);
    const count = patchesASide(shape) ** 2;
    const positions = `${tower}.embeddings.position_embedding.weight`;
    this.#positions = vectorWeight(memory, positions, count * hiddenSize);
    this.#layers = Array.from(
      { length: shape.layers },
      (_, i) => new VisionLayer(context, shape, `${tower}.encoder.layers.${i}`),
    );
    this.#norm = normWeights(memory, `${tower}.post_layernorm`, hiddenSize);
    const projector = { rows, columns: shuffle ** 2 * hiddenSize, bias: false };
    this.#projector = visionLinear(context, "model.connector.modality_projection.proj", projector);
    this.specs = [
      // The checkpoint has a patch as a convolution's kernel.
      ...this.#patches.specs.map((spec) =>
        spec.shape.length === 1 ? spec : { ...spec, shape: [hiddenSize, 3, patchSide, patchSide] },
      ),
      { ...this.#positions.spec, shape: [count, hiddenSize] },
      ...this.#layers.flatMap(({ specs }) => specs),
      ...normSpecs(this.#norm),
      ...this.#projector.specs,
    ];
  }

  /** Appends the launches for one picture. */
  compile(plan: Plan<object>): VisionTensors {
    const { recorder } = plan;
    const { hiddenSize: cols, normEps: eps, shuffle: scale, patchSide, textSize } = this.shape;
    const side = patchesASide(this.shape);
    const rows = this.#allocateRows(side ** 2);
    const { hidden, normed } = rows;
    const patchStride = strideOf(3 * patchSide ** 2);
    const featureStride = strideOf(textSize);
    const tokens = imageTokens(this.shape);
    const patches = this.#allocate(rows.count * patchStride, "patches");
    const shuffled = this.#allocate(rows.count * cols, "shuffled patches");
    const features = this.#allocate(tokens * featureStride, "features");

    const input = { x: patches, xStride: patchStride, phase: "decode" } as const;
    const embed = this.#patches.bind(recorder, { ...input, out: hidden, outStride: cols });
    plan.add(() => embed(rows.count));
    plan.tap("vision.patch_embed", hidden);
    let pending = this.#positions.tensor;
    let name = "vision.embeddings";
    this.#layers.forEach((one, i) => {
      const layer = `vision.layer${i}`;
      pending = one.compile(plan, rows, { pending, name, layer });
      name = `${layer}.out`;
    });
    const { weight, bias } = this.#norm;
    const weights = { weight: weight.tensor, bias: bias.tensor };
    const norm = layerNorm(recorder, {
      x: hidden,
      addend: pending,
      out: normed,
      cols,
      eps,
      ...weights,
    });
    plan.add(() => norm(rows.count));
    plan.tap(name, hidden);
    plan.tap("vision.post_norm", normed);
    const shuffle = pixelShuffle(recorder, { x: normed, out: shuffled, cols, side, scale });
    const project = this.#projector.bind(recorder, {
      x: shuffled,
      xStride: scale ** 2 * cols,
      out: features,
      outStride: featureStride,
      phase: "decode",
    });
    plan.add(shuffle);
    plan.tap("connector.shuffled", shuffled);
    plan.add(() => project(tokens));
    plan.tap("projector.out", features);
    return { patches, patchStride, features, featureStride };
  }

  #allocateRows(count: number): VisionRows {
    const { hiddenSize, intermediate } = this.shape;
    const allocate = (width: number, label: string) =>
      this.#allocate(count * width, `patches' ${label}`);
    const innerStride = strideOf(intermediate);
    return {
      count,
      hidden: allocate(hiddenSize, "residual stream"),
      output: allocate(hiddenSize, "block output"),
      normed: allocate(hiddenSize, "normed rows"),
      attended: allocate(hiddenSize, "attention"),
      qkv: allocate(3 * hiddenSize, "queries, keys and values"),
      inner: allocate(innerStride, "inner rows"),
      innerStride,
    };
  }

  #allocate(elements: number, label: string): Tensor {
    return this.#memory.allocate("activations", elements * 4, label);
  }
}
