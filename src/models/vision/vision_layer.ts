/**
 * A layer of a vision tower: attention of every patch to every patch, and an MLP, each behind a
 * LayerNorm.
 *
 * @module
 */
import { fullAttention } from "../../../kernels/vision/full_attention.ts";
import { gelu } from "../../../kernels/vision/gelu.ts";
import { layerNorm } from "../../../kernels/vision/layer_norm.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import { Linear } from "../../layers/linear.ts";
import { type VectorWeight, vectorWeight } from "../../layers/weights/vector_weight.ts";
import type { VisionShape } from "./vision_shape.ts";

/** A LayerNorm's weights. */
export interface NormWeights {
  readonly weight: VectorWeight;
  readonly bias: VectorWeight;
}

export function normWeights(memory: DeviceMemory, name: string, length: number): NormWeights {
  return {
    weight: vectorWeight(memory, `${name}.weight`, length),
    bias: vectorWeight(memory, `${name}.bias`, length),
  };
}

export const normSpecs = ({ weight, bias }: NormWeights): WeightSpec[] => [weight.spec, bias.spec];

/** The rows of a picture, which all layers share. */
export interface VisionRows {
  readonly count: number;
  /** `[count, hiddenSize]` f32: the residual stream, without what is pending. */
  readonly hidden: Tensor;
  /** The same size: what the last block made, the block's input, attention's output. */
  readonly output: Tensor;
  readonly normed: Tensor;
  readonly attended: Tensor;
  /** `[count, 3 * hiddenSize]` f32: queries, keys, values */
  readonly qkv: Tensor;
  /** `[count, innerStride]` f32 */
  readonly inner: Tensor;
  readonly innerStride: number;
}

/** A linear that stays as the checkpoint has it, whatever text models are quantized to. */
export function visionLinear(
  context: LayerContext,
  name: string,
  shape: { readonly rows: number; readonly columns: number; readonly bias: boolean },
): Linear {
  const format = context.formats.published(name);
  return new Linear(context, { ...shape, name, format, split: "none" });
}

export class VisionLayer {
  readonly specs: readonly WeightSpec[];
  readonly #shape: VisionShape;
  readonly #norms: readonly [NormWeights, NormWeights];
  readonly #projections: readonly Linear[];
  readonly #out: Linear;
  readonly #fc1: Linear;
  readonly #fc2: Linear;

  /** @param name In front of its tensors' names. */
  constructor(context: LayerContext, shape: VisionShape, name: string) {
    const { memory } = context;
    const { hiddenSize, intermediate } = shape;
    const linear = (part: string, rows = hiddenSize, columns = hiddenSize) =>
      visionLinear(context, `${name}.${part}`, { rows, columns, bias: true });
    this.#shape = shape;
    this.#norms = [
      normWeights(memory, `${name}.layer_norm1`, hiddenSize),
      normWeights(memory, `${name}.layer_norm2`, hiddenSize),
    ];
    this.#projections = ["q_proj", "k_proj", "v_proj"].map((one) => linear(`self_attn.${one}`));
    this.#out = linear("self_attn.out_proj");
    this.#fc1 = linear("mlp.fc1", intermediate);
    this.#fc2 = linear("mlp.fc2", hiddenSize, intermediate);
    const linears = [...this.#projections, this.#out, this.#fc1, this.#fc2];
    this.specs = [...this.#norms.flatMap(normSpecs), ...linears.flatMap(({ specs }) => specs)];
  }

  /**
   * Appends the layer's launches.
   *
   * @param from `pending`: what the first norm adds to the residual stream; `name`: what that then is.
   * @returns What is to be added behind the layer.
   */
  compile(
    plan: Plan<object>,
    rows: VisionRows,
    {
      pending,
      name,
      layer,
    }: { readonly pending: Tensor; readonly name: string; readonly layer: string },
  ): Tensor {
    const { recorder } = plan;
    const { hidden, normed, qkv, attended, output, inner, innerStride, count } = rows;
    const { hiddenSize: cols, normEps: eps, heads } = this.#shape;
    const norm = (index: 0 | 1, addend: Tensor) => {
      const { weight, bias } = this.#norms[index];
      const weights = { weight: weight.tensor, bias: bias.tensor };
      return layerNorm(recorder, { x: hidden, addend, out: normed, cols, eps, ...weights });
    };
    const linear = (one: Linear, to: LinearRows) => {
      const launch = one.bind(recorder, { ...to, phase: "decode" });
      return () => launch(count);
    };
    const norm1 = norm(0, pending);
    const projections = this.#projections.map((one, i) =>
      linear(one, { x: normed, xStride: cols, out: qkv, outStride: 3 * cols, outColumn: i * cols }),
    );
    const attend = fullAttention(recorder, {
      qkv,
      qkvStride: 3 * cols,
      keyColumn: cols,
      valueColumn: 2 * cols,
      out: attended,
      heads,
      headDim: cols / heads,
    });
    const project = linear(this.#out, { x: attended, xStride: cols, out: output, outStride: cols });
    const norm2 = norm(1, output);
    const up = linear(this.#fc1, { x: normed, xStride: cols, out: inner, outStride: innerStride });
    const activate = gelu(recorder, { x: inner });
    const down = linear(this.#fc2, {
      x: inner,
      xStride: innerStride,
      out: output,
      outStride: cols,
    });
    plan.add(() => norm1(count));
    plan.tap(name, hidden);
    plan.add(() => {
      for (const launch of projections) launch();
      attend(count);
      project();
    });
    plan.tap(`${layer}.attn_out`, output);
    plan.add(() => norm2(count));
    plan.tap(`${layer}.after_attn`, hidden);
    plan.add(() => {
      up();
      activate(count * innerStride);
      down();
    });
    return output;
  }
}

interface LinearRows {
  readonly x: Tensor;
  readonly xStride: number;
  readonly out: Tensor;
  readonly outStride: number;
  readonly outColumn?: number;
}
