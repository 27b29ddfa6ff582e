/**
 * Heads that are trained to draft for a model: one decoder layer, the target's token table, and what
 * the target has made of a row. Both read the token behind a row.
 *
 * | | a row is projected from | its layer sees | logits of |
 * |---|---|---|---|
 * | EAGLE | the token's embedding beside the target's final hidden state | that, without a norm | the target's head |
 * | EAGLE-3 | hidden states in front of three of the target's layers | norms of the embedding and of that, side by side | the head's own norm and output head, of fewer tokens |
 *
 * Its layer is that of Llama or Qwen2, of EAGLE-3 also that of DeepSeek with latent attention. A few
 * EAGLE-3 heads add what attention makes to the normed states, most to the states as they are.
 *
 * Rows of a chain have what the layer has made of the row before in place of the target's states, or of
 * their projection.
 *
 * Sources: Li et al., "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty" (2024);
 * Li et al., "EAGLE-3: Scaling up Inference Acceleration of Large Language Models via Training-Time
 * Test" (2025).
 *
 * @module
 */
import { joinRows } from "../../../kernels/speculation/join_rows.ts";
import { takeRows } from "../../../kernels/speculation/take_rows.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import { Linear } from "../../layers/linear.ts";
import { Mlp } from "../../layers/mlp.ts";
import { OutputHead } from "../../layers/ranks/output_head.ts";
import { ROW_WORDS } from "../../layers/step_tensors.ts";
import {
  neighbouringVectors,
  type VectorWeight,
  vectorWeight,
} from "../../layers/weights/vector_weight.ts";
import { ONE_RANK } from "../../parallel/communicator.ts";
import { decoderForms } from "../decoder_launches.ts";
import { bindBlocks, compileLayer, type LayerBlocks } from "../decoder_layer.ts";
import { allocateRows, compileFinalNorm, type DecoderRows, type Pending } from "../decoder_rows.ts";
import type { AttentionBlocks, DecoderShape } from "../decoder_shape.ts";
import { mlaBlocks } from "../deepseek.ts";
import { gqaBlocks } from "../gqa_decoder.ts";
import type { DraftBinding, LayerTensors, ModelOptions } from "../model_options.ts";
import {
  type DraftLaunches,
  type DraftNetwork,
  type DraftPart,
  type DraftTarget,
  ofEach,
  type WantedRows,
} from "./draft_network.ts";
import { AUXILIARY_STATES, type EagleConfig } from "./eagle_config.ts";
import { TargetIds } from "./target_ids.ts";

const FLOAT_BYTES = 4;

/** What a head is made with beside its config. */
interface GivenParts {
  /** Whether its checkpoint has a tensor. */
  readonly has: (name: string) => boolean;
  /** Layers of the target in front of which EAGLE-3 takes the rows. */
  readonly captures: readonly number[] | undefined;
  /** Keys that its attention takes at once. */
  readonly splitLength: number;
}

/** What EAGLE-3 has and EAGLE takes from its target, or goes without. */
interface OwnParts {
  /** Whether the residual stream begins with the normed states. */
  readonly addsToNormed: boolean;
  /** Norms of the embedding and of the projected states, side by side. */
  readonly norms: { readonly weights: Tensor; readonly hidden: number };
  readonly norm: VectorWeight;
  /** Where its head is its own. Without ids, its tokens are the target's. */
  readonly output: { readonly head: OutputHead; readonly ids: TargetIds | undefined } | undefined;
  readonly specs: readonly WeightSpec[];
}

/** What the launches of both parts of a step share. */
interface Bound {
  readonly target: DraftTarget;
  readonly tensors: DraftBinding;
  readonly blocks: LayerBlocks;
  /** `[maxRows, joinedStride]` f32: embedding and hidden state, side by side. */
  readonly joined: Tensor;
  /** `[maxRows]` u32: the second half of each joined row, as a row of half the width; where it is taken. */
  readonly halves: Tensor | undefined;
  /** `[maxRows, hiddenStride]` f32: what a chain's rows go on from; the drafts' hidden rows for EAGLE. */
  readonly carried: Tensor;
}

export class EagleHead implements DraftNetwork {
  readonly enters = "next tokens";
  readonly specs: readonly WeightSpec[];
  /** Layers of the target in front of which it takes the rows. */
  readonly captures: readonly number[] | undefined;
  readonly #shape: DecoderShape;
  readonly #options: ModelOptions;
  readonly #attention: AttentionBlocks;
  readonly #project: Linear;
  readonly #feedForwardNorm: VectorWeight;
  readonly #feedForward: Mlp;
  readonly #own: OwnParts | undefined;

  constructor(config: EagleConfig, options: ModelOptions, given: GivenParts) {
    const { layer, mlp, generation } = config;
    const { hiddenSize } = layer.config;
    const { memory } = options;
    const { has } = given;
    const isThird = generation === "EAGLE3";
    const name = isThird && !has("layers.0.hidden_norm.weight") ? "midlayer" : "layers.0";
    this.captures = given.captures;
    this.#options = options;
    this.#shape = { ...layer.config, mlp, experts: undefined, rounding: undefined };
    const special = { name: () => name, ...(isThird && { inputSize: 2 * hiddenSize }) };
    this.#attention =
      layer.kind === "gqa"
        ? gqaBlocks(layer.config, options, special)
        : mlaBlocks(layer.config, given, options, special);
    this.#project = new Linear(options, {
      name: "fc",
      rows: hiddenSize,
      columns: (isThird ? AUXILIARY_STATES : 2) * hiddenSize,
      split: "none",
      bias: has("fc.bias"),
    });
    this.#feedForwardNorm = vectorWeight(
      memory,
      `${name}.post_attention_layernorm.weight`,
      hiddenSize,
    );
    this.#feedForward = new Mlp(options, { name: `${name}.mlp`, hiddenSize, ...mlp });
    this.#own = isThird ? ownParts(config, options, { name, hasIds: has("d2t") }) : undefined;
    this.specs = [
      ...this.#project.specs,
      ...this.#attention.layers.flatMap(({ specs }) => specs),
      this.#feedForwardNorm.spec,
      ...this.#feedForward.specs,
      ...(this.#own?.specs ?? []),
    ];
  }

  get hiddenSize(): number {
    return this.#shape.hiddenSize;
  }

  /** The target's are used, and its ids are counted from the draft's. */
  ignores(name: string): boolean {
    if (name === "embed_tokens.weight" || name === "t2d") return true;
    return this.#own?.output === undefined && name.startsWith("lm_head.");
  }

  bind(plan: Plan<Step>, target: DraftTarget, tensors: DraftBinding): DraftLaunches {
    const bound = this.#bind(plan, target, tensors);
    const { rows, forms } = bound.blocks;
    const { output } = this.#own ?? {};
    return {
      head: output?.head ?? target.head,
      hiddenStride: rows.hiddenStride,
      findsBest: forms.findsBest,
      ...(output?.ids && { tokens: { count: output.ids.count, targetIds: output.ids.tensor } }),
      compileRows: (part) => {
        this.#compileInput(plan, bound, part);
        const pending = this.#compileLayer(plan, bound, part);
        return (rowIndices, { countOf = ofEach, readBy } = {}) =>
          this.#compileHidden(plan, bound, { pending, rowIndices, countOf, readBy });
      },
    };
  }

  /** Allocates its working memory. */
  #bind(plan: Plan<Step>, target: DraftTarget, tensors: DraftBinding): Bound {
    const { memory, maxRows, layout } = this.#options;
    const shape = this.#shape;
    const stride = Math.ceil(shape.hiddenSize / 4) * 4;
    const forms = decoderForms(layout, { rounding: undefined, ranks: 1 });
    const rows = allocateRows(memory, shape, { maxRows, stride, rounding: undefined, forms });
    const allocate = (width: number, label: string) =>
      memory.allocate("activations", maxRows * width * FLOAT_BYTES, label);
    const joined = allocate(this.#joinedStride, "joined rows");
    const input =
      this.#own === undefined
        ? { x: rows.hidden, xStride: stride }
        : { x: joined, xStride: this.#joinedStride };
    const attention = {
      bind: (own: LayerTensors, given: DecoderRows) =>
        this.#attention.bind(own, { ...given, normed: input }),
    };
    const { inputs } = tensors;
    const own = { inputs, cache: tensors.cache! };
    const layer = { shape, forms, rows, attention, tensors: own, layers: [this.#layer] };
    return {
      target,
      tensors,
      blocks: bindBlocks(plan, this.#options, layer),
      joined,
      halves: this.#own?.addsToNormed ? this.#allocateHalves() : undefined,
      carried:
        this.#own === undefined ? tensors.drafts.hidden : allocate(stride, "carried draft rows"),
    };
  }

  #allocateHalves(): Tensor {
    const { memory, maxRows } = this.#options;
    const numbers = Uint32Array.from({ length: maxRows }, (_, row) => 2 * row + 1);
    const halves = memory.allocate("activations", numbers.byteLength, "halves of joined rows");
    memory.write(halves, 0, numbers);
    return halves;
  }

  get #layer() {
    return {
      feedForwardNorm: this.#feedForwardNorm,
      feedForward: { dense: this.#feedForward },
    };
  }

  get #joinedStride(): number {
    return Math.ceil((2 * this.#shape.hiddenSize) / 4) * 4;
  }

  /** From tokens and states to the rows that the layer's attention projects, and their residual stream. */
  #compileInput(plan: Plan<Step>, bound: Bound, part: DraftPart): void {
    const { target, tensors, blocks } = bound;
    const { inputs, drafts } = tensors;
    const { output: embedded, hiddenStride: stride } = blocks.rows;
    const [sources, rowWords] =
      part === "step" ? [drafts.nextSources, 1] : [drafts.rows, ROW_WORDS];
    const { sampled, external } = inputs;
    const read = { rows: sources, sampled, external };
    target.embedding.compile(plan, { inputs: read, rowWords, out: embedded, stride });
    if (this.#own === undefined) this.#compileFirst(plan, bound, part);
    else this.#compileThird(plan, bound, { own: this.#own, part });
    plan.tap(`${part === "step" ? "" : "chain."}eagle.fc`, blocks.rows.hidden);
  }

  /** EAGLE: both halves as they are, projected. */
  #compileFirst(plan: Plan<Step>, bound: Bound, part: DraftPart): void {
    const { recorder } = plan;
    const { target, blocks, joined, carried } = bound;
    const { hidden: out, hiddenStride: outStride } = blocks.rows;
    const shape = this.#joinShape(bound);
    if (part === "chain") {
      const join = joinRows(recorder, { ...shape, x: carried });
      plan.add((step) => join(step.rows));
    } else {
      const { addend, isAdded } = target.pending;
      const finalWeight = target.norm.tensor;
      // Its own width is the target's, and so is the distance of rows.
      const step = { ...shape, x: target.blocks.rows.hidden, finalWeight };
      const [whole, adding] = [joinRows(recorder, step), joinRows(recorder, { ...step, addend })];
      plan.add((sizes) => (isAdded(sizes) ? whole : adding)(sizes.rows));
    }
    const input = { x: joined, xStride: this.#joinedStride };
    const project = this.#project.bind(recorder, { ...input, out, outStride });
    plan.add(({ rows, decodeRows }) => project(rows, decodeRows));
  }

  /** EAGLE-3: the target's states projected, or what is carried; normed beside the embedding. */
  #compileThird(
    plan: Plan<Step>,
    bound: Bound,
    { own, part }: { readonly own: OwnParts; readonly part: DraftPart },
  ): void {
    const { recorder } = plan;
    const { blocks, carried, tensors } = bound;
    const { hidden: out, hiddenStride: outStride } = blocks.rows;
    if (part === "chain") {
      const { hiddenSize: cols } = this.#shape;
      const take = takeRows(recorder, { x: carried, cols, stride: outStride, out, outStride });
      plan.add((step) => take(step.rows));
    } else {
      const { out: x, stride: xStride } = tensors.captures!;
      const project = this.#project.bind(recorder, { x, xStride, out, outStride });
      plan.add(({ rows, decodeRows }) => project(rows, decodeRows));
    }
    const join = joinRows(recorder, { ...this.#joinShape(bound), x: out, norms: own.norms });
    plan.add((step) => join(step.rows));
    if (!own.addsToNormed) return;
    const take = takeRows(recorder, this.#normedHalf(bound));
    plan.add((step) => take(step.rows));
  }

  /** The normed states from where they stand beside the embeddings, to the residual stream. */
  #normedHalf({ blocks, joined, halves }: Bound) {
    const { hiddenSize: cols } = this.#shape;
    const { hidden: out, hiddenStride: outStride } = blocks.rows;
    return { rowIndices: halves!, x: joined, cols, stride: this.#joinedStride / 2, out, outStride };
  }

  #joinShape({ blocks, joined }: Bound) {
    const { hiddenSize: cols, normEps: eps } = this.#shape;
    const { output: embedded, hiddenStride: stride } = blocks.rows;
    return { embedded, out: joined, outStride: this.#joinedStride, cols, stride, eps };
  }

  #compileLayer(plan: Plan<Step>, { blocks, tensors }: Bound, part: DraftPart): Pending {
    const { inputs, drafts } = tensors;
    return compileLayer(plan, blocks, this.#layer, {
      index: 0,
      name: part === "step" ? "eagle.layer" : "chain.eagle.layer",
      next: this.#own?.norm,
      inputs: part === "step" ? inputs : { ...inputs, rows: drafts.rows, rowGroups: undefined },
    });
  }

  /** Rows for the head, and the same without a norm for the rows behind them. */
  #compileHidden(
    plan: Plan<Step>,
    { blocks, tensors, carried: out }: Bound,
    wanted: Required<Pick<WantedRows, "countOf">> & {
      readonly pending: Pending;
      readonly rowIndices: Tensor;
      readonly readBy: WantedRows["readBy"];
    },
  ): void {
    const { pending, rowIndices, countOf, readBy } = wanted;
    const { rows } = blocks;
    const { hidden: x, hiddenStride: stride } = rows;
    const { hiddenSize: cols } = this.#shape;
    const { addend, isAdded } = pending;
    const shape = { rowIndices, x, cols, stride, out, outStride: stride };
    const weight = this.#own?.norm;
    if (weight === undefined || readBy !== "head") {
      const whole = takeRows(plan.recorder, shape);
      const adding = takeRows(plan.recorder, { ...shape, addend });
      plan.add((step) => (isAdded(step) ? whole : adding)(countOf(step)));
    }
    if (weight === undefined || readBy === "rows behind") return;
    const normed = { rows, weight, pending, rowIndices, countOf, out: tensors.drafts.hidden };
    compileFinalNorm(plan, this.#shape, normed);
  }
}

function ownParts(
  { layer, draftVocabularySize: rows, addsToNormed }: EagleConfig,
  options: ModelOptions,
  { name, hasIds }: { readonly name: string; readonly hasIds: boolean },
): OwnParts {
  const { memory } = options;
  const { hiddenSize, vocabularySize } = layer.config;
  const { tensor, weights } = neighbouringVectors(memory, `${name} norms`, [
    { name: `${name}.input_layernorm.weight`, length: hiddenSize },
    { name: `${name}.hidden_norm.weight`, length: hiddenSize },
  ]);
  const [embedded, hidden] = weights;
  const norm = vectorWeight(memory, "norm.weight", hiddenSize);
  const linear =
    rows && new Linear(options, { name: "lm_head", rows, columns: hiddenSize, split: "rows" });
  const head = linear && new OutputHead(linear, { memory, ranks: ONE_RANK, rows });
  // A head of all tokens may go without their numbers in the target.
  const needsIds = rows !== undefined && (hasIds || rows < vocabularySize);
  const ids = needsIds ? new TargetIds(memory, { count: rows, vocabularySize }) : undefined;
  return {
    addsToNormed,
    norms: { weights: tensor, hidden: (hidden!.tensor.offset - tensor.offset) / FLOAT_BYTES },
    norm,
    output: head ? { head, ids } : undefined,
    specs: [
      ...[embedded!, hidden!, norm].map(({ spec }) => spec),
      ...(linear ? linear.specs : []),
      ...(ids ? [ids.spec] : []),
    ],
  };
}
