/**
 * One layer of a decoder, and the working memory that all of them share.
 *
 * @module
 */
import type { Addend } from "../../kernels/norm/addend.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import { largestOf } from "../extremes.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "../layers/batch.ts";
import type { Embedding } from "../layers/embedding.ts";
import { always } from "../layers/launches/launch_list.ts";
import { Mlp } from "../layers/mlp.ts";
import type { MoeBinding } from "../layers/moe/expert_halves.ts";
import type { ExpertHits } from "../layers/moe/expert_hits.ts";
import { expertLayout } from "../layers/moe/experts.ts";
import { Moe } from "../layers/moe/moe.ts";
import { allocateMoeScratch, type MoeShape } from "../layers/moe/moe_scratch.ts";
import { GroupRows } from "../layers/ranks/group_rows.ts";
import { groupedRanks } from "../layers/ranks/group_sizes.ts";
import { RankSums } from "../layers/ranks/rank_sums.ts";
import { RowReturn } from "../layers/ranks/row_return.ts";
import { SlotExchange } from "../layers/ranks/slot_exchange.ts";
import type { StepTensors } from "../layers/step_tensors.ts";
import { type VectorWeight, vectorWeight } from "../layers/weights/vector_weight.ts";
import { ONE_RANK } from "../parallel/communicator.ts";
import { ExpertLayout } from "../parallel/experts/expert_layout.ts";
import type { DecoderForms } from "./decoder_launches.ts";
import {
  allocateRows,
  compileNorm,
  compileSum,
  type DecoderRows,
  type NormPlace,
  type Pending,
  type RowShape,
  residualOf,
} from "./decoder_rows.ts";
import type { AttendLayer, DecoderShape } from "./decoder_shape.ts";
import type { LayerTensors, ModelOptions } from "./model_options.ts";

export interface DecoderLayer {
  readonly attentionNorm: VectorWeight;
  readonly attention: { readonly specs: readonly WeightSpec[] };
  readonly feedForwardNorm: VectorWeight;
  readonly feedForward: { readonly dense: Mlp } | { readonly experts: Moe };
}

/** @param made `isSparse`: whether it has experts; `hits`: where their choices are counted. */
export function createLayer(
  options: ModelOptions,
  { hiddenSize, layers, mlp, experts }: DecoderShape,
  made: {
    readonly index: number;
    readonly attention: DecoderLayer["attention"];
    readonly isSparse: boolean;
    readonly hits?: ExpertHits | undefined;
  },
): DecoderLayer {
  const name = `model.layers.${made.index}`;
  // Layers behind the last are a draft module's, which has no copies.
  const placed = made.index < layers ? options : { ...options, expertLayout: undefined };
  const norm = (which: string) =>
    vectorWeight(options.memory, `${name}.${which}.weight`, hiddenSize);
  return {
    attentionNorm: norm("input_layernorm"),
    attention: made.attention,
    feedForwardNorm: norm("post_attention_layernorm"),
    feedForward:
      made.isSparse && experts !== undefined
        ? { experts: new Moe(placed, experts, `${name}.mlp`, made.hits?.of(made.index)) }
        : { dense: new Mlp(denseContext(options), { name: `${name}.mlp`, hiddenSize, ...mlp }) },
  };
}

/** The ranks that share a dense block out: all of them, or each has it whole. */
function denseContext(options: ModelOptions): ModelOptions {
  return options.wholeDense === true ? { ...options, communicator: ONE_RANK } : options;
}

export function layerSpecs({
  attentionNorm,
  attention,
  feedForwardNorm,
  feedForward,
}: DecoderLayer): readonly WeightSpec[] {
  const block = "dense" in feedForward ? feedForward.dense : feedForward.experts;
  return [attentionNorm.spec, ...attention.specs, feedForwardNorm.spec, ...block.specs];
}

/** Working memory that layers use one after the other. */
export interface LayerBlocks {
  readonly shape: DecoderShape;
  readonly forms: DecoderForms;
  readonly rows: DecoderRows;
  readonly attend: AttendLayer;
  readonly dense: DecoderRows & {
    readonly intermediate: Tensor;
    readonly intermediateStride: number;
  };
  readonly moe: (DecoderRows & Omit<MoeBinding, "residual">) | undefined;
  /** Of ranks in several attention groups: the rows of all. */
  readonly groups: { readonly together: GroupRows; readonly rows: DecoderRows } | undefined;
}

/** Allocates it. */
export function bindBlocks(
  plan: Plan<Step>,
  options: ModelOptions,
  bound: Pick<LayerBlocks, "shape" | "forms" | "rows"> & {
    readonly attention: { bind(tensors: LayerTensors, rows: DecoderRows): AttendLayer };
    readonly tensors: LayerTensors;
    readonly layers: readonly Pick<DecoderLayer, "feedForward">[];
  },
): LayerBlocks {
  const { shape, forms, rows, attention, tensors } = bound;
  const { device } = plan.recorder;
  const attend = attention.bind(tensors, rows);
  const dense = denseBinding(ofAllGroups(options), bound.layers, rows);
  return { ...bindShared(options, { shape, forms, rows, device }), attend, dense };
}

/** Allocates what belongs to the rows of one micro-batch alone, behind attention. */
export function bindShared(
  options: ModelOptions,
  bound: Pick<LayerBlocks, "shape" | "forms" | "rows"> & { readonly device: GPUDevice },
): Pick<LayerBlocks, "shape" | "forms" | "rows" | "moe" | "groups"> {
  const { device, ...given } = bound;
  const { shape, rows } = given;
  const groups = openGroups(options, bound);
  const { experts } = shape;
  const { hidden } = groups?.rows ?? rows;
  const moe = experts && moeBinding(ofAllGroups(options), experts, { rows, hidden, device });
  return { ...given, moe, groups };
}

/** With as many rows as those of all attention groups together. */
function ofAllGroups(options: ModelOptions): ModelOptions {
  const { attention } = options.communicator;
  return { ...options, maxRows: options.maxRows * (attention?.groups ?? 1) };
}

/** Where rows of all attention groups meet; undefined where there is one group. */
function openGroups(
  { memory, communicator, maxRows }: ModelOptions,
  {
    shape,
    forms,
    rows,
    device,
  }: Pick<LayerBlocks, "shape" | "forms" | "rows"> & { readonly device: GPUDevice },
): LayerBlocks["groups"] {
  const ranks = groupedRanks(communicator);
  if (ranks === undefined) return undefined;
  const { hiddenStride: stride, rounding } = rows;
  const sizes = { maxRows: maxRows * ranks.attention.groups, stride };
  const sums = new RankSums({ device, memory, communicator, ...sizes });
  return {
    together: new GroupRows({ device, memory, ranks, maxRows, stride }),
    rows: { ...allocateRows(memory, shape, { ...sizes, rounding, forms }), sums },
  };
}

/**
 * Adds a layer's launches behind the norm in front of its attention.
 *
 * @param at `index`: whose attention and cache it has; `name`: of its taps; `next`: the norm behind
 * it, where there is one; `inputs`: the rows that it is for, where they are not the step's.
 */
export function compileLayer(
  plan: Plan<Step>,
  blocks: LayerBlocks,
  { feedForward, feedForwardNorm }: Pick<DecoderLayer, "feedForward" | "feedForwardNorm">,
  at: {
    readonly index: number;
    readonly name: string;
    readonly next: VectorWeight | undefined;
    readonly inputs?: StepTensors;
  },
): Pending {
  const { shape, forms, rows, attend, groups } = blocks;
  const { hidden, output } = rows;
  const { index, name, next, inputs } = at;
  const addend: Addend = { kind: "row", tensor: output };
  const isAttended = attend(plan, index, residualOf(rows, feedForwardNorm, forms), inputs);
  plan.tap(`${name}.attn_out`, output);
  const pending = { addend, isAdded: isAttended };
  compileNorm(plan, shape, { rows, weight: feedForwardNorm, pending, forms });
  plan.tap(`${name}.after_attn`, hidden);
  const block = "experts" in feedForward ? feedForward.experts : feedForward.dense;
  if (groups !== undefined && block.isShared) {
    compileOfAll(plan, blocks, { feedForward, norm: feedForwardNorm, name });
    return { addend, isAdded: always, leavesNorm: true };
  }
  const residual = next && residualOf(rows, next, forms);
  return compileFeedForward(plan, blocks, {
    feedForward,
    norm: feedForwardNorm,
    rows: { ...rows, residual },
    name,
  });
}

/** A block whose weights the ranks of all groups share, for the rows of all: each group gets its own back. */
function compileOfAll(
  plan: Plan<Step>,
  blocks: LayerBlocks,
  at: {
    readonly feedForward: DecoderLayer["feedForward"];
    readonly norm: VectorWeight;
    readonly name: string;
  },
): void {
  const { shape, forms } = blocks;
  const { feedForward, norm: weight, name } = at;
  const { together, rows } = blocks.groups!;
  const hidden = { own: blocks.rows.hidden, all: rows.hidden };
  together.bring(plan, `${name} rows of all groups`, hidden);
  together.within(plan, () => {
    compileNorm(plan, shape, { rows, weight, pending: undefined, forms });
    const pending = compileFeedForward(plan, blocks, { feedForward, norm: weight, rows, name });
    // For what it adds: what it norms is not read.
    compileNorm(plan, shape, { rows, weight, pending, forms });
  });
  together.take(plan, hidden);
}

function compileFeedForward(
  plan: Plan<Step>,
  { shape, dense, moe }: LayerBlocks,
  at: {
    readonly feedForward: DecoderLayer["feedForward"];
    readonly norm: VectorWeight;
    readonly rows: DecoderRows;
    readonly name: string;
  },
): Pending {
  const { feedForward, norm: weight, rows, name } = at;
  if ("experts" in feedForward) {
    // Any norm's weight: its rows are not read.
    const norm = { shape, rows, weight };
    return compileExperts(plan, feedForward.experts, { ...moe!, ...rows }, { name, norm });
  }
  const addend: Addend = { kind: "row", tensor: rows.output };
  return { addend, isAdded: feedForward.dense.compile(plan, { ...dense, ...rows }) };
}

/** From tokens to rows that its final norm has not normed yet. */
export interface DecoderStack {
  readonly embedding: Embedding;
  /** At least one. */
  readonly layers: readonly DecoderLayer[];
  readonly norm: VectorWeight;
}

/** Which rows a stack is for, and what it is called. */
export interface StackPlace {
  readonly inputs: StepTensors;
  /** In front of the names of its taps. */
  readonly tapped?: string;
  /** Names the parts, where they are told apart. */
  readonly group?: (name: string) => void;
  /** Called in front of each layer, whose rows are whole then. */
  readonly beforeLayer?: (index: number) => void;
}

/** Adds the launches from tokens to what the last layer has made. */
export function compileStack(
  plan: Plan<Step>,
  blocks: LayerBlocks,
  stack: DecoderStack,
  at: StackPlace,
): Pending {
  compileEmbedding(plan, blocks, stack, at);
  return compileLayers(plan, blocks, stack, at);
}

/** Adds those from tokens to the rows of the first layer. */
export function compileEmbedding(
  plan: Plan<Step>,
  blocks: Pick<LayerBlocks, "rows">,
  stack: Pick<DecoderStack, "embedding">,
  at: StackPlace,
): void {
  const { inputs, tapped = "", group } = at;
  const { hidden, hiddenStride: stride } = blocks.rows;
  group?.("embedding");
  stack.embedding.compile(plan, { inputs, out: hidden, stride });
  plan.tap(`${tapped}embedding`, hidden);
}

/** Adds those from there on. */
export function compileLayers(
  plan: Plan<Step>,
  blocks: LayerBlocks,
  { layers, norm }: DecoderStack,
  at: StackPlace,
): Pending {
  const { shape, forms, rows } = blocks;
  const { inputs, tapped = "", group, beforeLayer } = at;
  let pending: Pending | undefined;
  layers.forEach((layer, index) => {
    // That of the first layer is no layer's own: no block before it can have done its work.
    if (index > 0) group?.(`layer ${index}`);
    compileNorm(plan, shape, { rows, weight: layer.attentionNorm, pending, forms });
    beforeLayer?.(index);
    if (index === 0) group?.(`layer ${index}`);
    if (index > 0) plan.tap(`${tapped}layer${index - 1}.out`, rows.hidden);
    const next = layers[index + 1]?.attentionNorm ?? norm;
    const name = `${tapped}layer${index}`;
    pending = compileLayer(plan, blocks, layer, { index, name, next, inputs });
  });
  return pending!;
}

function compileExperts(
  plan: Plan<Step>,
  experts: Moe,
  binding: MoeBinding,
  {
    name,
    norm,
  }: {
    readonly name: string;
    readonly norm: Pick<NormPlace, "rows" | "weight"> & { readonly shape: RowShape };
  },
): Pending {
  const isAdded = experts.compile(plan, binding);
  const { scratch, exchange } = binding;
  const { routerLogits, experts: chosen, weights, output: y } = scratch;
  plan.tap(`${name}.router_logits`, routerLogits);
  plan.tap(`${name}.experts`, chosen);
  plan.tap(`${name}.expert_weights`, weights);
  const addend: Addend = { kind: "combine", y, weights, slots: experts.slots };
  const returns = experts.isShared ? exchange?.returns : undefined;
  if (returns === undefined) return { addend, isAdded };
  // Of rows that are another rank's, what is added here is overwritten by what that sends.
  compileSum(plan, norm.shape, { ...norm, addend });
  returns.compile(plan, experts.name);
  return { addend: undefined, isAdded };
}

function moeBinding(
  options: ModelOptions,
  shape: MoeShape,
  {
    rows,
    hidden,
    device,
  }: {
    readonly rows: DecoderRows;
    /** Of those that ranks may add up for each other. */
    readonly hidden: Tensor;
    readonly device: GPUDevice;
  },
) {
  const { memory, maxRows, communicator } = options;
  const { hiddenStride: stride } = rows;
  const layout = expertLayout(options, shape);
  const { slots: routedSlots } = layout;
  const sizes = { maxRows, hiddenStride: stride, routedSlots };
  const scratch = allocateMoeScratch(memory, shape, sizes);
  const { experts, output } = scratch;
  const { perToken, shared } = shape;
  const maxPairs = maxRows * (perToken + shared);
  const meeting = { device, memory, communicator, maxPairs, experts, output, stride };
  // A draft module's experts may be shared out where the others are not.
  const isShared = layout.isShared || ExpertLayout.plain(communicator, shape.routed).isShared;
  if (!isShared) return { ...rows, scratch, exchange: undefined };
  const { allToAll: mode } = options;
  const returns = mode && new RowReturn({ ...meeting, mode, maxRows, hidden });
  return { ...rows, scratch, exchange: new SlotExchange({ ...meeting, returns }) };
}

function denseBinding(
  { memory, maxRows }: ModelOptions,
  layers: readonly Pick<DecoderLayer, "feedForward">[],
  rows: DecoderRows,
) {
  const widths = layers.map(({ feedForward: block }) =>
    "dense" in block ? block.dense.intermediate : 1,
  );
  const intermediateStride = Math.ceil(largestOf(widths) / 4) * 4;
  const bytes = maxRows * intermediateStride * 4;
  const intermediate = memory.allocate("activations", bytes, "dense intermediates");
  return { ...rows, intermediate, intermediateStride };
}
