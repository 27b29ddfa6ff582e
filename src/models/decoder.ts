/**
 * The decoder that every architecture here is a kind of: attention and a feed-forward block, each
 * behind a norm, layer after layer. The residual stream is f32; a block's result is added by the
 * norm that follows it, or by the block, which then does that norm's work too.
 *
 * @module
 */

import type { Residual } from "../../kernels/linear/residual_linear.ts";
import type { WeightDtype } from "../../kernels/linear/weights/layout.ts";
import type { Addend } from "../../kernels/norm/addend.ts";
import { finalNorm } from "../../kernels/norm/final_norm.ts";
import type { ActivationRounding } from "../../kernels/norm/quantize.ts";
import { layerIndex, type WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "../layers/batch.ts";
import type { AddsRows, BlockRows } from "../layers/block_rows.ts";
import { Embedding } from "../layers/embedding.ts";
import { addLaunches } from "../layers/launches/launch_list.ts";
import { Linear } from "../layers/linear.ts";
import { Mlp } from "../layers/mlp.ts";
import type { MoeBinding } from "../layers/moe/expert_halves.ts";
import { expertRun } from "../layers/moe/experts.ts";
import { Moe } from "../layers/moe/moe.ts";
import { allocateMoeScratch, type MoeShape } from "../layers/moe/moe_scratch.ts";
import { LogitGather } from "../layers/ranks/logit_gather.ts";
import { specOnRank } from "../layers/ranks/rank_specs.ts";
import { RankSums } from "../layers/ranks/rank_sums.ts";
import { SlotExchange } from "../layers/ranks/slot_exchange.ts";
import { mergeSpecs } from "../layers/weights/destinations.ts";
import type { MatrixFormat } from "../layers/weights/matrix_format.ts";
import { type VectorWeight, vectorWeight } from "../layers/weights/vector_weight.ts";
import { shareOf } from "../parallel/share.ts";
import { checkRounding } from "./activation_rounding.ts";
import {
  type DecoderForms,
  decoderForms,
  finalNormLaunches,
  headLaunches,
} from "./decoder_launches.ts";
import {
  allocateRows,
  compileNorm,
  type DecoderRows,
  type Pending,
  residualOf,
} from "./decoder_rows.ts";
import type { Model, ModelOptions, PlanTensors } from "./model.ts";
import { classesOf, type NumericClasses } from "./numeric_class.ts";

/** The attention of all layers: weights of each, working memory shared. */
export interface AttentionBlocks {
  readonly layers: readonly { readonly specs: readonly WeightSpec[] }[];
  /** Allocates the working memory; the returned function appends one layer's launches. */
  bind(
    tensors: PlanTensors,
    rows: BlockRows,
  ): (plan: Plan<Step>, layer: number, residual: Residual | undefined) => AddsRows;
}

/** Of the model, on all ranks together. */
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
  /** How the inputs of quantized linears are rounded, where they are. */
  readonly #rounding: ActivationRounding | undefined;
  readonly #forms: DecoderForms;
  readonly #attention: AttentionBlocks;
  readonly #embedding: Embedding;
  readonly #layers: readonly Layer[];
  readonly #norm: VectorWeight;
  readonly #head: Linear;
  /** Of the output head, that this rank has. */
  readonly #headRows: number;

  constructor(shape: DecoderShape, attention: AttentionBlocks, options: ModelOptions) {
    const { hiddenSize, vocabularySize, tiedEmbeddings } = shape;
    checkRounding(shape, options);
    this.#shape = shape;
    this.#options = options;
    this.#rounding = options.quantizeActivations ? shape.rounding : undefined;
    const { size: ranks } = options.communicator;
    this.#forms = decoderForms(options.layout, { rounding: this.#rounding, ranks });
    this.#attention = attention;
    const table = "model.embed_tokens";
    this.#embedding = new Embedding(options, { name: table, vocabularySize, hiddenSize });
    const head = tiedEmbeddings ? table : "lm_head";
    const vocabulary = { tensor: head, dimension: "rows", count: vocabularySize };
    this.#headRows = shareOf(options.communicator, vocabulary);
    this.#head = new Linear(options, {
      name: head,
      rows: this.#headRows,
      columns: hiddenSize,
      split: "rows",
    });
    this.#norm = vectorWeight(options.memory, "model.norm.weight", hiddenSize);
    this.#layers = Array.from({ length: shape.layers }, (_, i) => this.#createLayer(i));
    const specs = [...this.#embeddingSpecs(), ...this.#layers.flatMap(layerSpecs), this.#norm.spec];
    this.specs = specs.map((spec) => specOnRank(spec, options.communicator));
  }

  ignores(name: string): boolean {
    if (name === "lm_head.weight" && this.#shape.tiedEmbeddings) return true;
    // Inputs are not rounded by static scales: see the table of weights in docs/models.md.
    if (name.endsWith(".input_scale")) return true;
    if (this.#isOfOtherRank(name)) return true;
    // Layers beyond the last are the multi-token-prediction module.
    return (layerIndex(name) ?? -1) >= this.#shape.layers;
  }

  /** Whether a tensor is of an expert that another rank has. */
  #isOfOtherRank(name: string): boolean {
    const expert = /\.mlp\.experts\.(\d+)\./.exec(name)?.[1];
    const { experts } = this.#shape;
    if (expert === undefined || experts === undefined) return false;
    const { first, count } = expertRun(this.#options.communicator, experts.routed, "mlp");
    const number = Number(expert);
    return number < experts.routed && (number < first || number >= first + count);
  }

  get weightFormats(): ReadonlyMap<WeightDtype, MatrixFormat> {
    return this.#options.formats.used;
  }

  get numericClasses(): NumericClasses {
    return classesOf(this.#options.layout, this.#forms.takesCodes);
  }

  get findsBest(): boolean {
    return this.#forms.findsBest;
  }

  #embeddingSpecs(): WeightSpec[] {
    const [table] = this.#embedding.specs;
    // Every rank has the whole table, and a part of the head: read twice where they are one tensor.
    const shared = this.#shape.tiedEmbeddings && this.#options.communicator.size === 1;
    if (!shared) return [table!, ...this.#head.specs];
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
    const { device } = plan.recorder;
    const { memory, maxRows, communicator } = this.#options;
    const stride = Math.ceil(this.#shape.hiddenSize / 4) * 4;
    const meeting = { device, memory, communicator, maxRows, stride };
    const sums = communicator.size === 1 ? undefined : new RankSums(meeting);
    const own = { maxRows, stride, rounding: this.#rounding, forms: this.#forms };
    const rows = { ...allocateRows(memory, this.#shape, own), sums };
    const last = this.#compileLayers(plan, tensors, rows);
    plan.group("output head");
    const normed = this.#compileFinalNorm(plan, tensors, rows, last);
    plan.tap("final_norm", normed);
    this.#compileHead(plan, tensors, { x: normed, xStride: stride });
    plan.tap("logits", tensors.logits);
  }

  /** From tokens to what the last layer has made: a model has a layer at least. */
  #compileLayers(plan: Plan<Step>, tensors: PlanTensors, rows: DecoderRows): Pending {
    const { experts: moeShape } = this.#shape;
    const { hidden, output, hiddenStride: stride } = rows;
    const forms = this.#forms;
    const attend = this.#attention.bind(tensors, rows);
    const dense = this.#denseBinding(rows);
    const moe = moeShape && this.#moeBinding(moeShape, rows, plan.recorder.device);
    plan.group("embedding");
    this.#embedding.compile(plan, { inputs: tensors.inputs, out: hidden, stride });
    plan.tap("embedding", hidden);
    const addend: Addend = { kind: "row", tensor: output };
    let pending: Pending | undefined;
    const norm = (weight: VectorWeight) =>
      compileNorm(plan, this.#shape, { rows, weight, pending, forms });
    this.#layers.forEach((layer, i) => {
      // That of the first layer is no layer's own: no block before it can have done its work.
      if (i > 0) plan.group(`layer ${i}`);
      norm(layer.attentionNorm);
      if (i === 0) plan.group(`layer ${i}`);
      if (i > 0) plan.tap(`layer${i - 1}.out`, hidden);
      const isAttended = attend(plan, i, residualOf(rows, layer.feedForwardNorm, forms));
      plan.tap(`layer${i}.attn_out`, output);
      pending = { addend, isAdded: isAttended };
      norm(layer.feedForwardNorm);
      plan.tap(`layer${i}.after_attn`, hidden);
      const next = this.#layers[i + 1]?.attentionNorm ?? this.#norm;
      const residual = residualOf(rows, next, forms);
      pending =
        "dense" in layer.feedForward
          ? { addend, isAdded: layer.feedForward.dense.compile(plan, { ...dense, residual }) }
          : compileExperts(plan, layer.feedForward.experts, { ...moe!, residual }, `layer${i}`);
    });
    return pending!;
  }

  /** @returns The normed rows whose logits are wanted. */
  #compileFinalNorm(
    plan: Plan<Step>,
    { inputs }: PlanTensors,
    { hidden, hiddenStride: stride, normedRows }: DecoderRows,
    { addend, isAdded }: Pending,
  ): Tensor {
    const { recorder } = plan;
    const { hiddenSize: cols, normEps: eps } = this.#shape;
    // The blocks have read it for the last time.
    const out = normedRows.tensor;
    const rowIndices = inputs.logitRows;
    const shape = { x: hidden, weight: this.#norm.tensor, out, cols, stride, eps, rowIndices };
    addLaunches(plan, finalNormLaunches(isAdded), {
      finalNorm: () => {
        const norm = finalNorm(recorder, shape);
        return ({ logitRows }) => norm(logitRows);
      },
      addAndFinalNorm: () => {
        const norm = finalNorm(recorder, { ...shape, addend });
        return ({ logitRows }) => norm(logitRows);
      },
    });
    return out;
  }

  /** Logits of a rank's part of the vocabulary, and of all of it on every rank. */
  #compileHead(
    plan: Plan<Step>,
    { inputs, logits, logitsStride: stride }: PlanTensors,
    rows: { readonly x: Tensor; readonly xStride: number },
  ): void {
    const { recorder } = plan;
    const { memory, communicator } = this.#options;
    // Whose token is drawn next has the class of generated ones, a prompt's last row too.
    const input = { ...rows, phase: "decode" } as const;
    const width = this.#headRows;
    const gather =
      communicator.size === 1
        ? undefined
        : new LogitGather({
            device: recorder.device,
            memory,
            communicator,
            logits,
            stride,
            width,
          });
    addLaunches(plan, headLaunches(this.#forms), {
      logits: () => {
        const output = { out: gather?.own ?? logits, outStride: gather ? width : stride };
        const head = this.#head.bind(recorder, { ...input, ...output });
        return ({ logitRows }) => head(logitRows);
      },
      findBest: () => {
        const found = { work: logits, workStride: stride, ids: inputs.sampled };
        const find = this.#head.bindBest(recorder, { ...input, ...found });
        return ({ logitRows }) => find(logitRows);
      },
    });
    gather?.compile(plan);
  }

  #moeBinding(shape: MoeShape, rows: BlockRows, device: GPUDevice) {
    const { memory, maxRows, communicator } = this.#options;
    const { hiddenStride: stride } = rows;
    const scratch = allocateMoeScratch(memory, shape, { maxRows, hiddenStride: stride });
    const { experts, output } = scratch;
    const { routed, perToken, shared } = shape;
    const maxPairs = maxRows * (perToken + shared);
    const meeting = { device, memory, communicator, routed, maxPairs, experts, output, stride };
    const exchange = communicator.size === 1 ? undefined : new SlotExchange(meeting);
    return { ...rows, scratch, exchange };
  }

  #denseBinding(rows: BlockRows) {
    const { memory, maxRows, communicator } = this.#options;
    const own = Math.ceil(this.#shape.mlp.intermediate / communicator.size);
    const intermediateStride = Math.ceil(own / 4) * 4;
    const bytes = maxRows * intermediateStride * 4;
    const intermediate = memory.allocate("activations", bytes, "dense intermediates");
    return { ...rows, intermediate, intermediateStride };
  }
}

function compileExperts(
  plan: Plan<Step>,
  experts: Moe,
  binding: MoeBinding,
  name: string,
): Pending {
  const isAdded = experts.compile(plan, binding);
  const { routerLogits, experts: chosen, weights, output: y } = binding.scratch;
  plan.tap(`${name}.router_logits`, routerLogits);
  plan.tap(`${name}.experts`, chosen);
  plan.tap(`${name}.expert_weights`, weights);
  return { addend: { kind: "combine", y, weights, slots: experts.slots }, isAdded };
}

function layerSpecs({ attentionNorm, attention, feedForwardNorm, feedForward }: Layer) {
  const block = "dense" in feedForward ? feedForward.dense : feedForward.experts;
  return [attentionNorm.spec, ...attention.specs, feedForwardNorm.spec, ...block.specs];
}
