/**
 * A CLIP tower and the projector behind it, as LLaVA-1.5 has them.
 *
 * Sources: Radford et al., "Learning Transferable Visual Models From Natural Language Supervision"
 * (2021); Liu et al., "Improved Baselines with Visual Instruction Tuning" (2023).
 *
 * @module
 */
import { gelu } from "../../../kernels/vision/gelu.ts";
import { takeSums } from "../../../kernels/vision/take_sums.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import type { Linear } from "../../layers/linear.ts";
import { type VectorWeight, vectorWeight } from "../../layers/weights/vector_weight.ts";
import { CLIP_LAYER, VisionLayer } from "./vision_layer.ts";
import { allocateVisionRows } from "./vision_rows.ts";
import { patchesASide, type SquareShape } from "./vision_shape.ts";
import {
  shapedSpecs,
  strideOf,
  type VisionTensors,
  type VisionTower,
  wholePicture,
} from "./vision_tower.ts";
import {
  bindNorm,
  type NormWeights,
  normSpecs,
  normWeights,
  visionLinear,
} from "./vision_weights.ts";

/** `layers`: those whose output is read, of as many as the checkpoint has or fewer. */
export interface ClipShape extends SquareShape {
  /** Whether the class token's row is read too. */
  readonly keepsClass: boolean;
  readonly textSize: number;
}

/** In front of the names of the tower's tensors and the projector's. */
export interface ClipNames {
  readonly tower: string;
  readonly projector: string;
}

/** Rows that a picture becomes. */
export const clipRows = (shape: ClipShape): number =>
  patchesASide(shape) ** 2 + (shape.keepsClass ? 1 : 0);

type ClipMemory = ReturnType<ClipTower["allocate"]>;

export class ClipTower implements VisionTower {
  readonly specs: readonly WeightSpec[];
  readonly layers: number;
  readonly textSize: number;
  readonly maxRows: number;
  readonly #shape: ClipShape;
  readonly #memory: DeviceMemory;
  readonly #patches: Linear;
  readonly #class: VectorWeight;
  readonly #positions: VectorWeight;
  readonly #norm: NormWeights;
  readonly #layers: readonly VisionLayer[];
  readonly #projector: readonly [Linear, Linear];

  constructor(context: LayerContext, shape: ClipShape, names: ClipNames) {
    const { memory } = context;
    const { hiddenSize, patchSide, textSize } = shape;
    const tower = `${names.tower}.vision_model`;
    this.#shape = shape;
    this.#memory = memory;
    this.layers = shape.layers;
    this.textSize = textSize;
    this.maxRows = clipRows(shape);
    const patches = { rows: hiddenSize, columns: 3 * patchSide ** 2, bias: false };
    this.#patches = visionLinear(context, `${tower}.embeddings.patch_embedding`, patches);
    this.#class = vectorWeight(memory, `${tower}.embeddings.class_embedding`, hiddenSize);
    const count = patchesASide(shape) ** 2 + 1;
    const positions = `${tower}.embeddings.position_embedding.weight`;
    this.#positions = vectorWeight(memory, positions, count * hiddenSize);
    this.#norm = normWeights(memory, `${tower}.pre_layrnorm`, { length: hiddenSize });
    this.#layers = Array.from(
      { length: shape.layers },
      (_, i) =>
        new VisionLayer(context, shape, { name: `${tower}.encoder.layers.${i}`, form: CLIP_LAYER }),
    );
    const linear = (part: string, columns: number) =>
      visionLinear(context, `${names.projector}.${part}`, { rows: textSize, columns, bias: true });
    this.#projector = [linear("linear_1", hiddenSize), linear("linear_2", textSize)];
    this.specs = [
      ...shapedSpecs(this.#patches.specs, [hiddenSize, 3, patchSide, patchSide]),
      this.#class.spec,
      { ...this.#positions.spec, shape: [count, hiddenSize] },
      ...normSpecs(this.#norm),
      ...this.#layers.flatMap(({ specs }) => specs),
      ...this.#projector.flatMap(({ specs }) => specs),
    ];
  }

  allocate() {
    const { patchSide, textSize } = this.#shape;
    const patches = patchesASide(this.#shape) ** 2;
    const count = patches + 1;
    const patchStride = strideOf(3 * patchSide ** 2);
    const featureStride = strideOf(textSize);
    const allocate = (elements: number, label: string) =>
      this.#memory.allocate("activations", elements * 4, label);
    return {
      count,
      patchStride,
      featureStride,
      rows: allocateVisionRows(this.#memory, this.#shape, count),
      ...wholePicture(this.#memory, count),
      patches: allocate(patches * patchStride, "patches"),
      projected: allocate(this.maxRows * featureStride, "projected rows"),
      features: allocate(this.maxRows * featureStride, "features"),
    };
  }

  compile(plan: Plan<Step>): VisionTensors {
    const memory = this.allocate();
    const { count, rows, items, attention, patches, patchStride } = memory;
    const { features, featureStride } = memory;
    this.#embed(plan, memory);
    let pending: Tensor | undefined;
    let name = "vision.pre_norm";
    this.#layers.forEach((one, i) => {
      const layer = `vision.layer${i}`;
      const looks = { name, layer, items, attention: () => attention };
      pending = one.compile(plan, { rows, pending, ...looks });
      name = `${layer}.out`;
    });
    this.#project(plan, { ...memory, pending: pending! });
    const sizes = { patches: count, rows: this.maxRows };
    return { patches, patchStride, features, featureStride, begin: () => sizes };
  }

  /** From patches to the residual stream. */
  #embed(plan: Plan<Step>, { rows, patches, patchStride, count: all }: ClipMemory): void {
    const { recorder } = plan;
    const { hidden, output } = rows;
    const { hiddenSize: cols, normEps: eps } = this.#shape;
    const count = all - 1;
    const embed = this.#patches.bind(recorder, {
      x: patches,
      xStride: patchStride,
      out: output,
      outStride: cols,
      // One row further down: the class token comes first.
      outColumn: cols,
      phase: "decode",
    });
    const sizes = { x: output, addend: this.#positions.tensor, out: hidden, cols, eps };
    const norm = bindNorm(recorder, this.#norm, sizes);
    plan.add(() => embed(count));
    plan.addVarying(() => recorder.copy(this.#class.tensor, output, cols * 4));
    const { buffer, offset, size } = output;
    plan.tap("vision.patch_embed", { buffer, offset: offset + cols * 4, size: size - cols * 4 });
    plan.add((step) => norm(step.rows));
    plan.tap("vision.embeddings", output);
  }

  #project(
    plan: Plan<Step>,
    {
      rows,
      pending,
      count,
      projected: inner,
      features,
      featureStride,
    }: ClipMemory & { readonly pending: Tensor },
  ): void {
    const { recorder } = plan;
    const { hidden, normed: selected } = rows;
    const { hiddenSize: cols, keepsClass } = this.#shape;
    const sizes = { rows: count, cols, firstRow: keepsClass ? 0 : 1 };
    const take = takeSums(recorder, { x: hidden, addend: pending, out: selected, ...sizes });
    const phase = "decode";
    const [first, second] = this.#projector;
    const raise = first.bind(recorder, {
      x: selected,
      xStride: cols,
      out: inner,
      outStride: featureStride,
      phase,
    });
    const activate = gelu(recorder, { x: inner, form: "erf" });
    const lower = second.bind(recorder, {
      x: inner,
      xStride: featureStride,
      out: features,
      outStride: featureStride,
      phase,
    });
    plan.add(take);
    plan.tap("vision.selected", selected);
    plan.add(() => raise(this.maxRows));
    plan.tap("projector.linear_1", inner);
    plan.add(() => {
      activate(this.maxRows * featureStride);
      lower(this.maxRows);
    });
    plan.tap("projector.out", features);
  }
}
