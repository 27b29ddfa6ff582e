/**
 * A SigLIP encoder of square pictures of one size.
 *
 * Source: Zhai et al., "Sigmoid Loss for Language Image Pre-Training" (2023).
 *
 * @module
 */
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import type { Linear } from "../../layers/linear.ts";
import { type VectorWeight, vectorWeight } from "../../layers/weights/vector_weight.ts";
import { CLIP_LAYER, type LayerForm, VisionLayer } from "./vision_layer.ts";
import { allocateVisionRows } from "./vision_rows.ts";
import { patchesASide, type SquareShape } from "./vision_shape.ts";
import { shapedSpecs, strideOf, wholePicture } from "./vision_tower.ts";
import {
  bindNorm,
  type NormWeights,
  normSpecs,
  normWeights,
  visionLinear,
} from "./vision_weights.ts";

/** How a checkpoint spells the encoder's tensors. */
export interface SiglipNames {
  readonly patches: string;
  readonly positions: string;
  /** Dimensions in front of those of the table of positions. */
  readonly outer: readonly number[];
  readonly layer: (index: number) => string;
  readonly form: LayerForm;
  readonly norm: string;
}

const MODEL = "model.vision_model";

export const TRANSFORMERS_NAMES: SiglipNames = {
  patches: `${MODEL}.embeddings.patch_embedding`,
  positions: `${MODEL}.embeddings.position_embedding.weight`,
  outer: [],
  layer: (index) => `${MODEL}.encoder.layers.${index}`,
  form: CLIP_LAYER,
  norm: `${MODEL}.post_layernorm`,
};

/** Those of the timm library. */
export const TIMM_NAMES: SiglipNames = {
  patches: "vision.patch_embed.proj",
  positions: "vision.pos_embed",
  outer: [1],
  layer: (index) => `vision.blocks.${index}`,
  form: {
    norms: ["norm1", "norm2"],
    projections: ["attn.qkv"],
    output: "attn.proj",
    mlp: { kind: "plain", up: "mlp.fc1", down: "mlp.fc2" },
    centered: true,
  },
  norm: "vision.norm",
};

export interface EncodedPicture {
  /** `[patches, patchStride]` f32, in which a picture is handed over */
  readonly patches: Tensor;
  readonly patchStride: number;
  /** `[patches, hiddenSize]` f32, behind the last norm */
  readonly normed: Tensor;
}

type EncoderMemory = ReturnType<SiglipEncoder["allocate"]>;

export class SiglipEncoder {
  readonly specs: readonly WeightSpec[];
  readonly #shape: SquareShape;
  readonly #memory: DeviceMemory;
  readonly #patches: Linear;
  readonly #positions: VectorWeight;
  readonly #layers: readonly VisionLayer[];
  readonly #norm: NormWeights;

  constructor(context: LayerContext, shape: SquareShape, names: SiglipNames) {
    const { memory } = context;
    const { hiddenSize, patchSide } = shape;
    this.#shape = shape;
    this.#memory = memory;
    const columns = 3 * patchSide ** 2;
    this.#patches = visionLinear(context, names.patches, { rows: hiddenSize, columns, bias: true });
    const count = patchesASide(shape) ** 2;
    this.#positions = vectorWeight(memory, names.positions, count * hiddenSize);
    this.#layers = Array.from(
      { length: shape.layers },
      (_, i) => new VisionLayer(context, shape, { name: names.layer(i), form: names.form }),
    );
    this.#norm = normWeights(memory, names.norm, { length: hiddenSize });
    this.specs = [
      ...shapedSpecs(this.#patches.specs, [hiddenSize, 3, patchSide, patchSide]),
      { ...this.#positions.spec, shape: [...names.outer, count, hiddenSize] },
      ...this.#layers.flatMap(({ specs }) => specs),
      ...normSpecs(this.#norm),
    ];
  }

  allocate() {
    const count = patchesASide(this.#shape) ** 2;
    const patchStride = strideOf(3 * this.#shape.patchSide ** 2);
    return {
      rows: allocateVisionRows(this.#memory, this.#shape, count),
      ...wholePicture(this.#memory, count),
      patchStride,
      patches: this.#memory.allocate("activations", count * patchStride * 4, "patches"),
    };
  }

  /** @param last What the encoder's output is to those who look on. */
  compile(plan: Plan<Step>, memory: EncoderMemory, last: string): EncodedPicture {
    const { recorder } = plan;
    const { hiddenSize: cols, normEps: eps } = this.#shape;
    const { rows, items, attention, patches, patchStride } = memory;
    const { hidden, normed } = rows;
    const embed = this.#patches.bind(recorder, {
      x: patches,
      xStride: patchStride,
      out: hidden,
      outStride: cols,
      phase: "decode",
    });
    plan.add((step) => embed(step.rows));
    plan.tap("vision.patch_embed", hidden);
    let pending = this.#positions.tensor;
    let name = "vision.embeddings";
    this.#layers.forEach((one, i) => {
      const layer = `vision.layer${i}`;
      const looks = { name, layer, items, attention: () => attention };
      pending = one.compile(plan, { rows, pending, ...looks });
      name = `${layer}.out`;
    });
    const sizes = { x: hidden, addend: pending, out: normed, cols, eps };
    const norm = bindNorm(recorder, this.#norm, sizes);
    plan.add((step) => norm(step.rows));
    plan.tap(name, hidden);
    plan.tap(last, normed);
    return { patches, patchStride, normed };
  }
}
