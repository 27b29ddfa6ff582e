/**
 * The SigLIP tower of DeepSeek-VL2 and the projector behind it, of tiles of one size. Behind a tile's
 * rows come those that stand for the end of a line and between views.
 *
 * Source: Wu et al., "DeepSeek-VL2: Mixture-of-Experts Vision-Language Models for Advanced Multimodal
 * Understanding" (2024).
 *
 * @module
 */
import { gelu } from "../../../kernels/vision/gelu.ts";
import { pixelShuffle } from "../../../kernels/vision/pixel_shuffle.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Step } from "../../layers/batch.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import type { Linear } from "../../layers/linear.ts";
import { type VectorWeight, vectorWeight } from "../../layers/weights/vector_weight.ts";
import { SiglipEncoder, TIMM_NAMES } from "./siglip_encoder.ts";
import { patchesASide, type SquareShape } from "./vision_shape.ts";
import { strideOf, type VisionTensors, type VisionTower } from "./vision_tower.ts";
import { visionLinear } from "./vision_weights.ts";

export interface DeepseekVisionShape extends SquareShape {
  /** Patches of a side of the square that becomes one row. */
  readonly merge: number;
  readonly textSize: number;
}

/** Rows of a tile's side; the last ones have fewer patches. */
export const rowsASide = (shape: DeepseekVisionShape): number =>
  Math.ceil(patchesASide(shape) / shape.merge);

export class DeepseekTower implements VisionTower {
  readonly specs: readonly WeightSpec[];
  readonly layers: number;
  readonly textSize: number;
  readonly maxRows: number;
  readonly #shape: DeepseekVisionShape;
  readonly #memory: DeviceMemory;
  readonly #encoder: SiglipEncoder;
  readonly #projector: readonly [Linear, Linear];
  readonly #marks: readonly VectorWeight[];

  constructor(context: LayerContext, shape: DeepseekVisionShape) {
    const { memory } = context;
    const { hiddenSize, merge, textSize: rows } = shape;
    this.#shape = shape;
    this.#memory = memory;
    this.layers = shape.layers;
    this.textSize = rows;
    this.#encoder = new SiglipEncoder(context, shape, TIMM_NAMES);
    const linear = (part: number, columns: number) =>
      visionLinear(context, `projector.layers.${part}`, { rows, columns, bias: true });
    this.#projector = [linear(0, merge ** 2 * hiddenSize), linear(2, rows)];
    // Sic.
    this.#marks = ["image_newline", "view_seperator"].map((name) =>
      vectorWeight(memory, name, rows),
    );
    this.maxRows = rowsASide(shape) ** 2 + this.#marks.length;
    this.specs = [
      ...this.#encoder.specs,
      ...this.#projector.flatMap(({ specs }) => specs),
      ...this.#marks.map(({ spec }) => spec),
    ];
  }

  allocate() {
    const { hiddenSize, merge, textSize } = this.#shape;
    const tokens = rowsASide(this.#shape) ** 2;
    const featureStride = strideOf(textSize);
    const allocate = (elements: number, label: string) =>
      this.#memory.allocate("activations", elements * 4, label);
    return {
      encoder: this.#encoder.allocate(),
      merged: allocate(tokens * merge ** 2 * hiddenSize, "merged patches"),
      inner: allocate(tokens * featureStride, "projected rows"),
      features: allocate(this.maxRows * featureStride, "features"),
      featureStride,
    };
  }

  compile(plan: Plan<Step>): VisionTensors {
    const { recorder } = plan;
    const { hiddenSize: cols, merge: scale, textSize } = this.#shape;
    const side = patchesASide(this.#shape);
    const tokens = rowsASide(this.#shape) ** 2;
    const width = scale ** 2 * cols;
    const { encoder, merged, inner, features, featureStride } = this.allocate();
    const { normed, patches, patchStride } = this.#encoder.compile(plan, encoder, "vision.norm");
    const squares = { x: normed, out: merged, cols, side, scale, outermost: "columns" } as const;
    const shuffle = pixelShuffle(recorder, squares);
    const [first, second] = this.#projector;
    const phase = "decode";
    const raised = { out: inner, outStride: featureStride, phase } as const;
    const raise = first.bind(recorder, { x: merged, xStride: width, ...raised });
    const activate = gelu(recorder, { x: inner, form: "erf" });
    const lowered = { out: features, outStride: featureStride, phase } as const;
    const lower = second.bind(recorder, { x: inner, xStride: featureStride, ...lowered });
    plan.add(shuffle);
    plan.tap("projector.in", merged);
    plan.add(() => {
      raise(tokens);
      activate(tokens * featureStride);
      lower(tokens);
    });
    plan.addVarying(() => {
      this.#marks.forEach(({ tensor }, i) => {
        const at = (tokens + i) * featureStride * 4;
        const { buffer, offset } = features;
        const row = { buffer, offset: offset + at, size: featureStride * 4 };
        recorder.copy(tensor, row, textSize * 4);
      });
    });
    plan.tap("projector.tile", features);
    const rows = { patches: side ** 2, rows: this.maxRows };
    return { patches, patchStride, features, featureStride, begin: () => rows };
  }
}
