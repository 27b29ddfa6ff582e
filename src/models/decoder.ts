/**
 * The decoder that every architecture here is a kind of: attention and a feed-forward block, each
 * behind a norm, layer after layer. The residual stream is f32; a block's result is added by the
 * norm that follows it, or by the block, which then does that norm's work too.
 *
 * @module
 */

import type { WeightDtype } from "../../kernels/linear/weights/layout.ts";
import type { ActivationRounding } from "../../kernels/norm/quantize.ts";
import { takeRows } from "../../kernels/speculation/take_rows.ts";
import { layerIndex, type WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "../layers/batch.ts";
import { Embedding } from "../layers/embedding.ts";
import { addLaunches } from "../layers/launches/launch_list.ts";
import { Linear } from "../layers/linear.ts";
import { ExpertChoices } from "../layers/moe/expert_choices.ts";
import { ExpertHits } from "../layers/moe/expert_hits.ts";
import { expertLayout } from "../layers/moe/experts.ts";
import { OutputHead } from "../layers/ranks/output_head.ts";
import { cutProblem, specOnRank } from "../layers/ranks/rank_specs.ts";
import { RankSums } from "../layers/ranks/rank_sums.ts";
import { countProblem, ranksFor, type Unshared } from "../layers/ranks/unshared.ts";
import { mergeSpecs } from "../layers/weights/destinations.ts";
import type { MatrixFormat } from "../layers/weights/matrix_format.ts";
import { type VectorWeight, vectorWeight } from "../layers/weights/vector_weight.ts";
import { attentionRanks, type Communicator } from "../parallel/communicator.ts";
import { ExchangeTurns } from "../parallel/exchange_turns.ts";
import { type DecoderForms, decoderForms, headLaunches } from "./decoder_launches.ts";
import {
  bindBlocks,
  compileStack,
  createLayer,
  type DecoderLayer,
  type DecoderStack,
  type LayerBlocks,
  layerSpecs,
} from "./decoder_layer.ts";
import { allocateRows, compileFinalNorm, type DecoderRows, type Pending } from "./decoder_rows.ts";
import type { AttentionBlocks, DecoderShape } from "./decoder_shape.ts";
import { bindDrafts } from "./drafts/bind_drafts.ts";
import { DecoderDraft } from "./drafts/decoder_draft.ts";
import type { DraftNetwork } from "./drafts/draft_network.ts";
import { MtpModule } from "./drafts/mtp_module.ts";
import type { BindDrafts, Model } from "./model.ts";
import type { Captures, ModelOptions, PlanTensors } from "./model_options.ts";
import { classesOf, type NumericClasses } from "./numeric_class.ts";
import { compileMicroBatches } from "./overlap/micro_batch_layers.ts";

export class Decoder implements Model {
  readonly specs: readonly WeightSpec[];
  readonly expertHits: ExpertHits | undefined;
  readonly #shape: DecoderShape;
  readonly #options: ModelOptions;
  /** How the inputs of quantized linears are rounded, where they are. */
  readonly #rounding: ActivationRounding | undefined;
  readonly #forms: DecoderForms;
  readonly #attention: AttentionBlocks;
  readonly #embedding: Embedding;
  readonly #layers: readonly DecoderLayer[];
  /** Behind the last layer: drafts of what comes after the next token. */
  readonly #drafts: DraftNetwork | undefined;
  readonly #norm: VectorWeight;
  readonly #head: OutputHead;

  constructor(shape: DecoderShape, attention: AttentionBlocks, options: ModelOptions) {
    const { hiddenSize, vocabularySize, tiedEmbeddings } = shape;
    this.#shape = shape;
    this.#options = options;
    this.#rounding = options.quantizeActivations ? shape.rounding : undefined;
    const { size: ranks } = options.communicator;
    this.#forms = decoderForms(options.layout, { rounding: this.#rounding, ranks });
    this.#attention = attention;
    const table = "model.embed_tokens";
    this.#embedding = new Embedding(options, { name: table, vocabularySize, hiddenSize });
    const head = tiedEmbeddings ? table : "lm_head";
    this.#head = outputHead(options, { name: head, rows: vocabularySize, columns: hiddenSize });
    this.#norm = vectorWeight(options.memory, "model.norm.weight", hiddenSize);
    this.expertHits = hitsOf(options, shape);
    this.#layers = Array.from({ length: shape.layers }, (_, index) =>
      createLayer(options, shape, {
        index,
        attention: attention.layers[index]!,
        isSparse: shape.experts?.isSparse(index) === true,
        hits: this.expertHits,
      }),
    );
    this.#drafts = options.drafts ? new MtpModule(options, shape, attention.layers) : undefined;
    const specs = [
      ...this.#embeddingSpecs(),
      ...this.#layers.flatMap(layerSpecs),
      this.#norm.spec,
      ...(this.#drafts?.specs ?? []),
    ];
    this.specs = specs.map((spec) => specOnRank(spec, options.communicator));
  }

  ignores(name: string): boolean {
    if (name === "lm_head.weight" && this.#shape.tiedEmbeddings) return true;
    // Inputs are not rounded by static scales: see the table of weights in docs/models.md.
    if (name.endsWith(".input_scale")) return true;
    if (this.#isOfOtherRank(name)) return true;
    // Layers beyond the last are the multi-token-prediction module.
    if ((layerIndex(name) ?? -1) < this.#shape.layers) return false;
    return this.#drafts?.ignores(name) ?? true;
  }

  /** Whether a tensor is of an expert that another rank has. */
  #isOfOtherRank(name: string): boolean {
    const expert = /\.mlp\.experts\.(\d+)\./.exec(name)?.[1];
    const { experts } = this.#shape;
    if (expert === undefined || experts === undefined) return false;
    const layer = layerIndex(name)!;
    const placed =
      layer < this.#shape.layers ? this.#options : { ...this.#options, expertLayout: undefined };
    const { rank } = this.#options.communicator;
    const number = Number(expert);
    return number < experts.routed && !expertLayout(placed, experts).holds(number, layer, rank);
  }

  async moveExperts(device: GPUDevice, layer: number, after: readonly number[]): Promise<void> {
    const { feedForward } = this.#layers[layer]!;
    if ("experts" in feedForward) await feedForward.experts.moveExperts(device, after);
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

  get unshared(): readonly Unshared[] {
    return this.#options.unshared?.all ?? [];
  }

  #embeddingSpecs(): WeightSpec[] {
    const [table] = this.#embedding.specs;
    const { isWhole, specs: head } = this.#head;
    // A rank with a part of the head has the whole table: read twice where they are one tensor.
    if (!this.#shape.tiedEmbeddings || !isWhole) return [table!, ...head];
    return mergeSpecs([[table!], head]);
  }

  compile(plan: Plan<Step>, tensors: PlanTensors): BindDrafts {
    const { device } = plan.recorder;
    const { memory, maxRows } = this.#options;
    const shape = this.#shape;
    const forms = this.#forms;
    const stride = Math.ceil(shape.hiddenSize / 4) * 4;
    const { turns, options } = this.#inTurns(tensors);
    const communicator = attentionRanks(options.communicator);
    const meeting = { device, memory, communicator, maxRows, stride };
    const sums = communicator.size === 1 ? undefined : new RankSums(meeting);
    const own = { maxRows, stride, rounding: this.#rounding, forms };
    const rows = { ...allocateRows(memory, shape, own), sums };
    const bound = { shape, forms, rows, attention: this.#attention, tensors, layers: this.#layers };
    const blocks = bindBlocks(plan, options, bound);
    this.#compileChoices(plan, tensors.inputs);
    const pending = this.#compileStack(plan, blocks, { tensors, turns });
    plan.group("output head");
    // The blocks have read it for the last time.
    const normed = rows.normedRows.tensor;
    const rowIndices = tensors.inputs.logitRows;
    const weight = this.#norm;
    compileFinalNorm(plan, shape, {
      rows,
      pending,
      weight,
      rowIndices,
      out: normed,
      countOf: ({ logitRows }) => logitRows,
    });
    plan.tap("final_norm", normed);
    this.#compileHead(plan, tensors, { x: normed, xStride: stride });
    plan.tap("logits", tensors.logits);
    const target = { blocks, pending, norm: weight, embedding: this.#embedding, head: this.#head };
    const { pageSize, contextLength: maxPositions } = this.#options;
    const choice = { target, vocabularySize: shape.vocabularySize, pageSize, maxPositions };
    return (tensors, network = this.#drafts) => bindDrafts(plan, network!, { ...choice, tensors });
  }

  /** Where steps are cut, the first micro-batch's end of the group of ranks. */
  #inTurns({ microBatches }: PlanTensors) {
    const options = this.#options;
    if (microBatches === undefined) return { turns: undefined, options };
    const turns = new ExchangeTurns(microBatches.length);
    const communicator = turns.end(0, options.communicator);
    return { turns, options: { ...options, communicator } };
  }

  #compileStack(
    plan: Plan<Step>,
    blocks: LayerBlocks,
    given: { readonly tensors: PlanTensors; readonly turns: ExchangeTurns | undefined },
  ): Pending {
    const { inputs, captures, microBatches } = given.tensors;
    const { hiddenSize } = this.#shape;
    const capture = (rows: DecoderRows, kept: Captures | undefined, index: number) =>
      compileCapture(plan, rows, { captures: kept, hiddenSize, index });
    const at = { inputs, group: (name: string) => plan.group(name) };
    if (given.turns === undefined || microBatches === undefined) {
      const beforeLayer = (index: number) => capture(blocks.rows, captures, index);
      return compileStack(plan, blocks, this.#stack, { ...at, beforeLayer });
    }
    const own = { ...at, captures, microBatches, turns: given.turns, capture };
    return compileMicroBatches(plan, this.#options, blocks, this.#stack, own);
  }

  /** Keeps what a step's rows are, where steps may keep what these choose. */
  #compileChoices(plan: Plan<Step>, inputs: PlanTensors["inputs"]): void {
    const sparse = this.#layers.find(({ feedForward }) => "experts" in feedForward);
    if (sparse === undefined || !("experts" in sparse.feedForward)) return;
    const { slots: perRow } = sparse.feedForward.experts;
    const { maxRows } = this.#options;
    this.expertHits?.choices?.compile(plan, inputs, { perRow, maxRows });
  }

  get #stack(): DecoderStack {
    return { embedding: this.#embedding, layers: this.#layers, norm: this.#norm };
  }

  asDraft(): DraftNetwork {
    return new DecoderDraft(this, {
      shape: this.#shape,
      options: this.#options,
      rounding: this.#rounding,
      forms: this.#forms,
      attention: this.#attention,
      stack: this.#stack,
      head: this.#head,
    });
  }

  /** Logits of a rank's part of the vocabulary, and of all of it on every rank. */
  #compileHead(
    plan: Plan<Step>,
    { inputs, logits, logitsStride: stride }: PlanTensors,
    rows: { readonly x: Tensor; readonly xStride: number },
  ): void {
    const { recorder } = plan;
    const output = this.#head.into(recorder.device, { ...rows, logits, stride });
    output.bring(plan);
    // Whose token is drawn next has the class of generated ones, a prompt's last row too.
    const input = { x: output.x, xStride: output.xStride, phase: "decode" } as const;
    addLaunches(plan, headLaunches(this.#forms), {
      logits: () => {
        const { out, outStride } = output;
        const head = this.#head.linear.bind(recorder, { ...input, out, outStride });
        return (step) => head(output.rowsOf(step, step.logitRows));
      },
      findBest: () => {
        const found = { work: logits, workStride: stride, ids: inputs.sampled };
        const find = this.#head.linear.bindBest(recorder, { ...input, ...found });
        return ({ logitRows }) => find(logitRows);
      },
    });
    output.gather(plan, ({ logitRows }) => logitRows);
  }
}

function hitsOf(
  {
    memory,
    keepsChoices = false,
    twoBatchOverlap = false,
  }: Pick<ModelOptions, "memory" | "keepsChoices" | "twoBatchOverlap">,
  { layers: count, experts }: DecoderShape,
): ExpertHits | undefined {
  if (experts === undefined) return undefined;
  const layers = Array.from({ length: count }, (_, layer) => layer).filter((layer) =>
    experts.isSparse(layer),
  );
  const { routed, perToken: chosen } = experts;
  const choices = keepsChoices ? new ExpertChoices(memory, { layers, chosen }) : undefined;
  const microBatches = twoBatchOverlap ? 2 : 1;
  return new ExpertHits(memory, { layers, experts: routed, microBatches }, choices);
}

/** @param head With the rows of the whole vocabulary. */
function outputHead(
  options: ModelOptions,
  { name, ...shape }: { readonly name: string; readonly rows: number; readonly columns: number },
): OutputHead {
  const { formats } = options;
  const communicator = headRanks(options);
  const rows = shape.rows / communicator.size;
  const problem =
    countProblem(communicator, { count: shape.rows, dimension: "rows" }) ??
    cutProblem(communicator, { ...shape, rows, split: "rows", format: formats.linear(name) });
  const ranks = ranksFor({ ...options, communicator }, { name, problem });
  const own = shape.rows / ranks.size;
  const { columns } = shape;
  const linear = new Linear(options, { name, rows: own, columns, split: "rows" });
  return new OutputHead(linear, { memory: options.memory, ranks, rows: own });
}

/** The ranks that share the head out: all of them, or those of each attention group. */
function headRanks({ communicator, headByGroup }: ModelOptions): Communicator {
  return headByGroup === true ? attentionRanks(communicator) : communicator;
}

/** Keeps the rows in front of a layer, where steps draft by a network that takes them. */
function compileCapture(
  plan: Plan<Step>,
  { hidden: x, hiddenStride: stride }: DecoderRows,
  at: Pick<PlanTensors, "captures"> & { readonly hiddenSize: number; readonly index: number },
): void {
  const { captures, hiddenSize: cols, index } = at;
  captures?.layers.forEach((layer, place) => {
    if (layer !== index) return;
    const { out, stride: outStride } = captures;
    const outColumn = place * cols;
    const take = takeRows(plan.recorder, { x, cols, stride, out, outStride, outColumn });
    plan.within({ times: ({ draft }) => (draft === undefined ? 0 : 1) }, () =>
      plan.add(({ rows }) => take(rows)),
    );
  });
}
