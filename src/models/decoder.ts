/**
 * The decoder that every architecture here is a kind of: attention and a feed-forward block, each
 * behind a norm, layer after layer. The residual stream is f32; a block's result is added by the
 * norm that follows it, or by the block, which then does that norm's work too.
 *
 * @module
 */
import type { WeightDtype } from "../../kernels/linear/layout.ts";
import type { Residual } from "../../kernels/linear/residual_linear.ts";
import { addNorm } from "../../kernels/norm/add_norm.ts";
import type { Addend } from "../../kernels/norm/addend.ts";
import { finalNorm } from "../../kernels/norm/final_norm.ts";
import { type NormedRows, normedShape, partOf } from "../../kernels/norm/normed_rows.ts";
import { type ActivationRounding, quantize } from "../../kernels/norm/quantize.ts";
import { quantizeCodes } from "../../kernels/norm/quantize_codes.ts";
import { layerIndex, type WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "../layers/batch.ts";
import { type AddsRows, type BlockRows, isFused } from "../layers/block_rows.ts";
import { mergeSpecs } from "../layers/destinations.ts";
import { Embedding } from "../layers/embedding.ts";
import { expertRun } from "../layers/experts.ts";
import { Linear } from "../layers/linear.ts";
import { LogitGather } from "../layers/logit_gather.ts";
import type { MatrixFormat } from "../layers/matrix_format.ts";
import { Mlp } from "../layers/mlp.ts";
import { Moe } from "../layers/moe.ts";
import { allocateMoeScratch, type MoeShape } from "../layers/moe_scratch.ts";
import { specOnRank } from "../layers/rank_specs.ts";
import { RankSums } from "../layers/rank_sums.ts";
import { type LinearInput, RowCodes } from "../layers/rounded_rows.ts";
import { SlotExchange } from "../layers/slot_exchange.ts";
import { type VectorWeight, vectorWeight } from "../layers/vector_weight.ts";
import { shareOf } from "../parallel/share.ts";
import { checkRounding } from "./activation_rounding.ts";
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

/** Rows of a step, as the blocks of all layers have them. */
interface DecoderRows extends BlockRows {
  /** `[maxRows, hiddenStride]` f32: the residual stream */
  readonly hidden: Tensor;
  /** What norms write; rounded rows of other schemes than theirs are apart. */
  readonly normedRows: NormedRows;
}

/** What a block has made, and where nobody has to add it any more. */
interface Pending {
  readonly addend: Addend;
  readonly isAdded: AddsRows;
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
  /** Of the output head, that this rank has. */
  readonly #headRows: number;

  constructor(shape: DecoderShape, attention: AttentionBlocks, options: ModelOptions) {
    const { hiddenSize, vocabularySize, tiedEmbeddings } = shape;
    checkRounding(shape, options);
    this.#shape = shape;
    this.#options = options;
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
    return classesOf(this.#options.layout, this.#takesCodes);
  }

  /** Ranks have parts of rows, whose codes would not be those of whole ones. */
  get #takesCodes(): boolean {
    const { layout, communicator, quantizeActivations } = this.#options;
    const isInt8 = quantizeActivations && this.#shape.rounding?.format === "int8";
    return isInt8 && layout.packedDots === true && communicator.size === 1;
  }

  /** Several ranks bring the parts of their logits together first; matrices have no such launch. */
  get findsBest(): boolean {
    const { tuning, matrix } = this.#options.layout;
    return (
      tuning?.findsBest === true && matrix?.decode !== true && this.#options.communicator.size === 1
    );
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
    const { recorder } = plan;
    const { device } = recorder;
    const { hiddenSize, normEps: eps, experts: moeShape } = this.#shape;
    const { memory, maxRows, communicator } = this.#options;
    const stride = Math.ceil(hiddenSize / 4) * 4;
    const meeting = { device, memory, communicator, maxRows, stride };
    const sums = communicator.size === 1 ? undefined : new RankSums(meeting);
    const rows = { ...this.#allocateRows(stride), sums };
    const { hidden, output } = rows;
    const attend = this.#attention.bind(tensors, rows);
    const dense = this.#denseBinding(rows);
    const moe = moeShape && this.#moeBinding(moeShape, rows, device);

    plan.group("embedding");
    this.#embedding.compile(plan, { inputs: tensors.inputs, out: hidden, stride });
    plan.tap("embedding", hidden);
    const addend: Addend = { kind: "row", tensor: output };
    let pending: Pending | undefined;
    this.#layers.forEach((layer, i) => {
      // That of the first layer is no layer's own: nobody before it can have it done.
      if (i > 0) plan.group(`layer ${i}`);
      this.#addNorm(plan, rows, layer.attentionNorm, pending);
      if (i === 0) plan.group(`layer ${i}`);
      if (i > 0) plan.tap(`layer${i - 1}.out`, hidden);
      const attended = attend(plan, i, this.#residual(rows, layer.feedForwardNorm));
      plan.tap(`layer${i}.attn_out`, output);
      this.#addNorm(plan, rows, layer.feedForwardNorm, { addend, isAdded: attended });
      plan.tap(`layer${i}.after_attn`, hidden);
      const residual = this.#residual(rows, this.#layers[i + 1]?.attentionNorm ?? this.#norm);
      if ("dense" in layer.feedForward) {
        const isAdded = layer.feedForward.dense.compile(plan, { ...dense, residual });
        pending = { addend, isAdded };
        return;
      }
      const { scratch } = moe!;
      const { experts } = layer.feedForward;
      const isAdded = experts.compile(plan, { ...moe!, residual });
      plan.tap(`layer${i}.router_logits`, scratch.routerLogits);
      plan.tap(`layer${i}.experts`, scratch.experts);
      plan.tap(`layer${i}.expert_weights`, scratch.weights);
      const { output: y, weights } = scratch;
      pending = {
        addend: { kind: "combine", y, weights, slots: experts.slots },
        isAdded,
      };
    });

    plan.group("output head");
    const { logitRows } = tensors.inputs;
    // A model has a layer at least, whose result is the last that is pending.
    const last = pending as Pending | undefined;
    // Nobody reads normed rows any more.
    const normed = rows.normedRows.tensor;
    const shape = {
      x: hidden,
      weight: this.#norm.tensor,
      out: normed,
      cols: hiddenSize,
      stride,
      eps,
    };
    const bare = finalNorm(recorder, { ...shape, rowIndices: logitRows });
    const adding = finalNorm(recorder, { ...shape, rowIndices: logitRows, addend: last!.addend });
    plan.add((step) => (last!.isAdded(step) ? bare : adding)(step.logitRows));
    plan.tap("final_norm", normed);
    this.#compileHead(plan, tensors, { x: normed, xStride: stride });
    plan.tap("logits", tensors.logits);
  }

  /** Whether norms leave their scale to who multiplies the rows: f16 has no room for such numbers. */
  get #leavesScale(): boolean {
    const { quantizeActivations, layout } = this.#options;
    const { rounding } = this.#shape;
    const roundsApart = quantizeActivations && rounding !== undefined && !isFused(rounding);
    return !roundsApart && layout.halfProducts !== true && layout.matrix?.decode !== true;
  }

  /** Rows of a step whose norms do: not those that matrices multiply. */
  #unscaledRows({ rows, decodeRows }: Step): number {
    if (!this.#leavesScale) return 0;
    return this.#options.layout.matrix === undefined ? rows : decodeRows;
  }

  /** What blocks add to themselves in front of such a norm, where that pays. */
  #residual(
    { hidden, hiddenStride: stride, normedRows: normed }: DecoderRows,
    { tensor: weight }: VectorWeight,
  ): Residual | undefined {
    const { layout, communicator } = this.#options;
    const folds = layout.tuning?.foldsNorms === true && communicator.size === 1;
    return folds && this.#leavesScale ? { hidden, stride, weight, normed } : undefined;
  }

  /** Logits of a rank's part of the vocabulary, and of all of it on every rank. */
  #compileHead(
    plan: Plan<Step>,
    tensors: PlanTensors,
    rows: { readonly x: Tensor; readonly xStride: number },
  ): void {
    const { memory, communicator } = this.#options;
    // Whose token is drawn next has the class of generated ones, a prompt's last row too.
    const input = { ...rows, phase: "decode" } as const;
    const { recorder } = plan;
    const { logits, logitsStride: stride } = tensors;
    if (communicator.size === 1) {
      const head = this.#head.bind(recorder, { ...input, out: logits, outStride: stride });
      const { sampled: ids } = tensors.inputs;
      const own = { ...input, work: logits, workStride: stride, ids };
      const best = this.findsBest ? this.#head.bindBest(recorder, own) : undefined;
      plan.add((step) => (step.onlyBest ? best! : head)(step.logitRows));
      return;
    }
    const width = this.#headRows;
    const { device } = recorder;
    const gather = new LogitGather({ device, memory, communicator, logits, stride, width });
    const head = this.#head.bind(recorder, { ...input, out: gather.own, outStride: width });
    plan.add((step) => head(step.logitRows));
    gather.compile(plan);
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

  #allocateRows(stride: number): DecoderRows {
    const { memory, maxRows, quantizeActivations } = this.#options;
    const { hiddenSize, normEps: eps } = this.#shape;
    const rounding = quantizeActivations ? this.#shape.rounding : undefined;
    const codes = this.#takesCodes ? new RowCodes(memory, maxRows) : undefined;
    const allocate = (label: string, width = stride) =>
      memory.allocate("activations", maxRows * width * 4, label);
    const shape = normedShape(hiddenSize, isFused(rounding));
    const normedRows = { ...shape, tensor: allocate("normed rows", shape.stride) };
    const quantized = (): LinearInput => {
      if (codes !== undefined) return codes.input("normed rows", hiddenSize);
      if (shape.rounded !== undefined) return partOf(normedRows, shape.rounded, eps);
      return { x: allocate("quantized rows"), xStride: stride };
    };
    return {
      hidden: allocate("hidden rows"),
      normedRows,
      normed: partOf(normedRows, 0, eps),
      quantized: rounding && quantized(),
      rounding,
      codes,
      output: allocate("block output"),
      hiddenStride: stride,
    };
  }

  /**
   * Adds what came before to the residual stream, norms it, and rounds it where that is wanted: where
   * the block before has not done so itself.
   */
  #addNorm(
    plan: Plan<Step>,
    rows: DecoderRows,
    { tensor: weight }: VectorWeight,
    pending: Pending | undefined,
  ): void {
    const { recorder } = plan;
    const { hidden: x, normedRows: normed, rounding, hiddenStride: stride } = rows;
    const { hiddenSize: cols, normEps: eps } = this.#shape;
    const addend = pending?.addend;
    const norm = addNorm(recorder, { ...{ x, addend, weight, normed, cols, stride, eps } });
    const round =
      rounding === undefined || isFused(rounding)
        ? undefined
        : this.#round(recorder, rows, rounding);
    plan.add((step) => {
      if (pending?.isAdded(step)) return;
      norm(step.rows, this.#unscaledRows(step));
      round?.(step.rows);
    });
  }

  #round(
    recorder: Recorder,
    { normed, quantized }: DecoderRows,
    rounding: ActivationRounding,
  ): (rows: number) => void {
    const { x: out, xStride: outStride, coded } = quantized!;
    const shape = { x: normed.x, cols: this.#shape.hiddenSize, stride: normed.xStride, out };
    return coded === true
      ? quantizeCodes(recorder, { ...shape, group: rounding.group })
      : quantize(recorder, { ...shape, outStride, rounding });
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

function layerSpecs({ attentionNorm, attention, feedForwardNorm, feedForward }: Layer) {
  const block = "dense" in feedForward ? feedForward.dense : feedForward.experts;
  return [attentionNorm.spec, ...attention.specs, feedForwardNorm.spec, ...block.specs];
}
