/**
 * A layer of a vision tower: attention of patches to patches, and an MLP, each behind a norm.
 *
 * @module
 */
import { type AttentionItems, fullAttention } from "../../../kernels/vision/full_attention.ts";
import { rotatePatches } from "../../../kernels/vision/rotate_patches.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import type { LayerContext } from "../../layers/layer_context.ts";
import type { Linear } from "../../layers/linear.ts";
import { type CompiledVisionMlp, createVisionMlp, type VisionMlpNames } from "./vision_mlp.ts";
import type { VisionRows } from "./vision_rows.ts";
import type { VisionShape } from "./vision_shape.ts";
import {
  bindNorm,
  type NormWeights,
  normSpecs,
  normWeights,
  visionLinear,
} from "./vision_weights.ts";

/** How a family spells a layer's tensors, and what its parts are. */
export interface LayerForm {
  readonly norms: readonly [string, string];
  /** Queries, keys and values, one linear each or all in one. */
  readonly projections: readonly string[];
  readonly output: string;
  readonly mlp: VisionMlpNames;
  /** Whether norms are LayerNorms. */
  readonly centered: boolean;
}

/** CLIP's and SigLIP's in the transformers library. */
export const CLIP_LAYER: LayerForm = {
  norms: ["layer_norm1", "layer_norm2"],
  projections: ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
  output: "self_attn.out_proj",
  mlp: { kind: "plain", up: "mlp.fc1", down: "mlp.fc2" },
  centered: true,
};

/** What a layer's launches are bound to. */
export interface LayerBinding {
  readonly rows: VisionRows;
  /** What the first norm adds to the residual stream, where anything is pending. */
  readonly pending: Tensor | undefined;
  /** What the stream then is, and the layer, for those who look on. */
  readonly name: string;
  readonly layer: string;
  /** `[items, 4]` u32, and which of them this layer has in a run. */
  readonly items: Tensor;
  attention(): AttentionItems;
  /** `[rows, headDim / 2, 2]` f32: turns of queries and keys; absent where they do not turn. */
  readonly turns?: Tensor | undefined;
}

export class VisionLayer {
  readonly specs: readonly WeightSpec[];
  readonly #shape: VisionShape;
  readonly #norms: readonly [NormWeights, NormWeights];
  readonly #projections: readonly Linear[];
  readonly #out: Linear;
  readonly #mlp: CompiledVisionMlp;

  /** @param options `name`: in front of its tensors' names. */
  constructor(
    context: LayerContext,
    shape: VisionShape,
    { name, form }: { readonly name: string; readonly form: LayerForm },
  ) {
    const { memory } = context;
    const { hiddenSize: length } = shape;
    const { centered, projections, norms } = form;
    const linear = (part: string, rows: number) =>
      visionLinear(context, `${name}.${part}`, { rows, columns: length, bias: true });
    this.#shape = shape;
    this.#norms = [
      normWeights(memory, `${name}.${norms[0]}`, { length, centered }),
      normWeights(memory, `${name}.${norms[1]}`, { length, centered }),
    ];
    this.#projections = projections.map((one) => linear(one, (3 * length) / projections.length));
    this.#out = linear(form.output, length);
    this.#mlp = createVisionMlp(context, shape, { name, names: form.mlp });
    this.specs = [
      ...this.#norms.flatMap(normSpecs),
      ...[...this.#projections, this.#out].flatMap(({ specs }) => specs),
      ...this.#mlp.specs,
    ];
  }

  /**
   * Appends the layer's launches, over the rows of each step.
   *
   * @returns What is to be added behind the layer.
   */
  compile(plan: Plan<Step>, binding: LayerBinding): Tensor {
    const { recorder } = plan;
    const { rows, pending, name, layer, items, attention, turns } = binding;
    const { hidden, normed, qkv, attended, output } = rows;
    const { hiddenSize: cols, normEps: eps, heads } = this.#shape;
    const common = { x: hidden, out: normed, cols, eps };
    const norm1 = bindNorm(recorder, this.#norms[0], { ...common, addend: pending });
    const width = (3 * cols) / this.#projections.length;
    const projections = this.#projections.map((one, i) =>
      one.bind(recorder, {
        x: normed,
        xStride: cols,
        out: qkv,
        outStride: 3 * cols,
        outColumn: i * width,
        phase: "decode",
      }),
    );
    const headDim = cols / heads;
    const turn =
      turns &&
      rotatePatches(recorder, { qkv, stride: 3 * cols, vectors: 2 * heads, headDim, turns });
    const attend = fullAttention(recorder, {
      qkv,
      qkvStride: 3 * cols,
      keyColumn: cols,
      valueColumn: 2 * cols,
      items,
      out: attended,
      heads,
      headDim,
    });
    const project = this.#out.bind(recorder, {
      x: attended,
      xStride: cols,
      out: output,
      outStride: cols,
      phase: "decode",
    });
    const norm2 = bindNorm(recorder, this.#norms[1], { ...common, addend: output });
    plan.add((step) => norm1(step.rows));
    plan.tap(name, hidden);
    plan.add((step) => {
      for (const launch of projections) launch(step.rows);
      turn?.(step.rows);
      attend(attention());
      project(step.rows);
    });
    plan.tap(`${layer}.attn_out`, output);
    plan.add((step) => norm2(step.rows));
    plan.tap(`${layer}.after_attn`, hidden);
    this.#mlp.compile(plan, rows);
    return output;
  }
}
