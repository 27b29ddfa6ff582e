/**
 * The decoder that every architecture here is a kind of: attention and a feed-forward block, each
 * behind a norm, layer after layer. The residual stream is f32; a block's result is added by the
 * norm that follows it.
 *
 * @module
 */
import type { WeightDtype } from "../../kernels/linear/layout.ts";
import { addNorm } from "../../kernels/norm/add_norm.ts";
import type { Addend } from "../../kernels/norm/addend.ts";
import { finalNorm } from "../../kernels/norm/final_norm.ts";
import { type ActivationRounding, quantize } from "../../kernels/norm/quantize.ts";
import { layerIndex, type WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "../layers/batch.ts";
import { type BlockRows, isFused } from "../layers/block_rows.ts";
import { mergeSpecs } from "../layers/destinations.ts";
import { Embedding } from "../layers/embedding.ts";
import { Linear } from "../layers/linear.ts";
import type { MatrixFormat } from "../layers/matrix_format.ts";
import { Mlp } from "../layers/mlp.ts";
import { allocateMoeScratch, Moe, type MoeShape } from "../layers/moe.ts";
import { type VectorWeight, vectorWeight } from "../layers/vector_weight.ts";
import type { Model, ModelOptions, PlanTensors } from "./model.ts";

/** The attention of all layers: weights of each, working memory shared. */
export interface AttentionBlocks {
  readonly layers: readonly { readonly specs: readonly WeightSpec[] }[];
  /** Allocates the working memory; the returned function appends one layer's launches. */
  bind(tensors: PlanTensors, rows: BlockRows): (plan: Plan<Step>, layer: number) => void;
}

export interface DecoderShape {
  readonly hiddenSize: number;
  readonly vocabularySize: number;
  readonly layers: number;
  readonly normEps: number;
  /** Whether the token table is the output head too. */
  readonly tiedEmbeddings: boolean;
  readonly mlp: { readonly intermediate: number; readonly bias: boolean };
  /** Experts, and which layers have them; the others have the MLP. */
  readonly experts: (MoeShape & { isSparse(layer: number): boolean }) | undefined;
  /** How the inputs of quantized linears are rounded, by the checkpoint's scheme. */
  readonly rounding: ActivationRounding | undefined;
}

interface Layer {
  readonly attentionNorm: VectorWeight;
  readonly attention: { readonly specs: readonly WeightSpec[] };
  readonly feedForwardNorm: VectorWeight;
  readonly feedForward: { readonly dense: Mlp } | { readonly experts: Moe };
}

export class Decoder implements Model {
  readonly specs: readonly WeightSpec[];
  readonly #shape: DecoderShape;
  readonly #options: ModelOptions;
  readonly #attention: AttentionBlocks;
  readonly #embedding: Embedding;
  readonly #layers: readonly Layer[];
  readonly #norm: VectorWeight;
  readonly #head: Linear;

  constructor(shape: DecoderShape, attention: AttentionBlocks, options: ModelOptions) {
    const { hiddenSize, vocabularySize, tiedEmbeddings } = shape;
    this.#shape = shape;
    this.#options = options;
    this.#attention = attention;
    const table = "model.embed_tokens";
    this.#embedding = new Embedding(options, { name: table, vocabularySize, hiddenSize });
    this.#head = new Linear(options, {
      name: tiedEmbeddings ? table : "lm_head",
      rows: vocabularySize,
      columns: hiddenSize,
      split: "rows",
    });
    this.#norm = vectorWeight(options.memory, "model.norm.weight", hiddenSize);
    this.#layers = Array.from({ length: shape.layers }, (_, i) => this.#createLayer(i));
    this.specs = [...this.#embeddingSpecs(), ...this.#layers.flatMap(layerSpecs), this.#norm.spec];
  }

  ignores(name: string): boolean {
    if (name === "lm_head.weight" && this.#shape.tiedEmbeddings) return true;
    // Inputs are not rounded by scales that somebody measured: see the table of models in README.
    if (name.endsWith(".input_scale")) return true;
    // Layers beyond the last are the multi-token-prediction module.
    return (layerIndex(name) ?? -1) >= this.#shape.layers;
  }

  get weightFormats(): ReadonlyMap<WeightDtype, MatrixFormat> {
    return this.#options.formats.used;
  }

  #embeddingSpecs(): WeightSpec[] {
    const [table] = this.#embedding.specs;
    if (!this.#shape.tiedEmbeddings) return [table!, ...this.#head.specs];
    return mergeSpecs([[table!], this.#head.specs]);
  }

  #createLayer(index: number): Layer {
    const { hiddenSize, mlp, experts } = this.#shape;
    const options = this.#options;
    const name = `model.layers.${index}`;
    const norm = (which: string) =>
      vectorWeight(options.memory, `${name}.${which}.weight`, hiddenSize);
    return {
      attentionNorm: norm("input_layernorm"),
      attention: this.#attention.layers[index]!,
      feedForwardNorm: norm("post_attention_layernorm"),
      feedForward: experts?.isSparse(index)
        ? { experts: new Moe(options, experts, `${name}.mlp`) }
        : { dense: new Mlp(options, { name: `${name}.mlp`, hiddenSize, ...mlp }) },
    };
  }

  compile(plan: Plan<Step>, tensors: PlanTensors): void {
    const { recorder } = plan;
    const { hiddenSize, normEps: eps, experts: moeShape } = this.#shape;
    const { memory, maxRows } = this.#options;
    const stride = Math.ceil(hiddenSize / 4) * 4;
    const rows = this.#allocateRows(stride);
    const { hidden, normed, output } = rows;
    const attend = this.#attention.bind(tensors, rows);
    const dense = this.#denseBinding(rows);
    const moe = moeShape && {
      scratch: allocateMoeScratch(memory, moeShape, { maxRows, hiddenStride: stride }),
      ...rows,
    };

    plan.group("embedding");
    this.#embedding.compile(plan, { inputs: tensors.inputs, out: hidden, stride });
    plan.tap("embedding", hidden);
    const fromRow: Addend = { kind: "row", tensor: output };
    let addend: Addend | undefined;
    this.#layers.forEach((layer, i) => {
      plan.group(`layer ${i}`);
      this.#addNorm(plan, rows, layer.attentionNorm, addend);
      if (i > 0) plan.tap(`layer${i - 1}.out`, hidden);
      attend(plan, i);
      plan.tap(`layer${i}.attn_out`, output);
      this.#addNorm(plan, rows, layer.feedForwardNorm, fromRow);
      plan.tap(`layer${i}.after_attn`, hidden);
      if ("dense" in layer.feedForward) {
        layer.feedForward.dense.compile(plan, dense);
        addend = fromRow;
        return;
      }
      const { scratch } = moe!;
      const { experts } = layer.feedForward;
      experts.compile(plan, moe!);
      plan.tap(`layer${i}.router_logits`, scratch.routerLogits);
      plan.tap(`layer${i}.experts`, scratch.experts);
      plan.tap(`layer${i}.expert_weights`, scratch.weights);
      const { output: y, weights } = scratch;
      addend = { kind: "combine", y, weights, slots: experts.slots };
    });

    plan.group("output head");
    const record = finalNorm(recorder, {
      rowIndices: tensors.inputs.logitRows,
      x: hidden,
      addend,
      weight: this.#norm.tensor,
      out: normed,
      cols: hiddenSize,
      stride,
      eps,
    });
    plan.add((step) => record(step.logitRows));
    plan.tap("final_norm", normed);
    const head = this.#head.bind(recorder, {
      x: normed,
      xStride: stride,
      out: tensors.logits,
      outStride: tensors.logitsStride,
    });
    plan.add((step) => head(step.logitRows));
    plan.tap("logits", tensors.logits);
  }

  #allocateRows(stride: number): BlockRows & { readonly hidden: Tensor } {
    const { memory, maxRows, quantizeActivations } = this.#options;
    const rounding = quantizeActivations ? this.#shape.rounding : undefined;
    const rows = (label: string) => memory.allocate("activations", maxRows * stride * 4, label);
    return {
      hidden: rows("hidden rows"),
      normed: rows("normed rows"),
      quantized: rounding && rows("quantized rows"),
      rounding,
      output: rows("block output"),
      hiddenStride: stride,
    };
  }

  /** Adds what came before to the residual stream, norms it, and rounds it where that is wanted. */
  #addNorm(
    plan: Plan<Step>,
    { hidden, normed, quantized, rounding, hiddenStride: stride }: BlockRows & { hidden: Tensor },
    { tensor: weight }: VectorWeight,
    addend: Addend | undefined,
  ): void {
    const { recorder } = plan;
    const { hiddenSize: cols, normEps: eps } = this.#shape;
    const shape = { x: hidden, weight, normed, cols, stride, addend, eps };
    const fused = isFused(rounding);
    const norm = addNorm(recorder, { ...shape, quantized: fused ? quantized : undefined });
    plan.add((step) => norm(step.rows));
    if (rounding === undefined || fused) return;
    const round = quantize(recorder, { x: normed, out: quantized!, cols, stride, rounding });
    plan.add((step) => round(step.rows));
  }

  #denseBinding(rows: BlockRows) {
    const { memory, maxRows } = this.#options;
    const intermediateStride = Math.ceil(this.#shape.mlp.intermediate / 4) * 4;
    const bytes = maxRows * intermediateStride * 4;
    const intermediate = memory.allocate("activations", bytes, "dense intermediates");
    return { ...rows, intermediate, intermediateStride };
  }
}

function layerSpecs({ attentionNorm, attention, feedForwardNorm, feedForward }: Layer) {
  const block = "dense" in feedForward ? feedForward.dense : feedForward.experts;
  return [attentionNorm.spec, ...attention.specs, feedForwardNorm.spec, ...block.specs];
}
