/**
 * The multi-token-prediction module behind a decoder's last layer: from a row's final hidden state
 * and the token that comes next it predicts the token after that. It is one more decoder layer, whose
 * cache entry of a position stands where the target's of that position does. Token table and output
 * head are the target's.
 *
 * A step has two parts of it. In the first every row enters the module's cache, with the token that
 * the step itself has drawn where that is the next one; the last accepted row of each sequence gives
 * its first draft. In the second, once for each further draft, a row of each sequence is the module's
 * own: the draft, and its output instead of a hidden state of the target.
 *
 * Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 2.2.
 *
 * @module
 */
import { argmax } from "../../kernels/sampling/argmax.ts";
import { sample } from "../../kernels/sampling/sample.ts";
import { acceptRows } from "../../kernels/speculation/accept_rows.ts";
import { advanceRows } from "../../kernels/speculation/advance_rows.ts";
import { joinRows } from "../../kernels/speculation/join_rows.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { EMPTY_STEP, type Step } from "../layers/batch.ts";
import type { DraftTensors } from "../layers/draft_tensors.ts";
import type { Embedding } from "../layers/embedding.ts";
import { Linear } from "../layers/linear.ts";
import { compileOutputs } from "../layers/ranks/row_parallel.ts";
import type { StepTensors } from "../layers/step_tensors.ts";
import {
  neighbouringVectors,
  type VectorWeight,
  vectorWeight,
} from "../layers/weights/vector_weight.ts";
import {
  compileLayer,
  createLayer,
  type DecoderLayer,
  type LayerBlocks,
  layerSpecs,
} from "./decoder_layer.ts";
import { compileFinalNorm, compileNorm, type Pending, residualOf } from "./decoder_rows.ts";
import type { DecoderShape } from "./decoder_shape.ts";
import type { DraftBinding, ModelOptions } from "./model.ts";

/** What the module shares with the model that it drafts for. */
export interface DraftTarget {
  readonly blocks: LayerBlocks;
  /** What its last layer has made of the step's rows. */
  readonly pending: Pending;
  /** Its final norm. */
  readonly norm: VectorWeight;
  readonly embedding: Embedding;
  readonly head: Linear;
}

/** What the rows of one part of a step come from. */
interface Entering {
  readonly inputs: StepTensors;
  /** Of the token table: the rows that it reads, and their words. */
  readonly rows: Tensor;
  readonly rowWords: number;
  /** Records the joining of `rows` rows. */
  readonly join: (step: Step) => void;
  /** In front of the names of its taps. */
  readonly tapped: string;
}

const FLOAT_BYTES = 4;

export class DraftModule {
  readonly specs: readonly WeightSpec[];
  readonly #shape: DecoderShape;
  readonly #options: ModelOptions;
  readonly #name: string;
  /** Norms of the embedding and of the hidden state, side by side. */
  readonly #norms: Tensor;
  readonly #hiddenNorm: number;
  readonly #project: Linear;
  readonly #layer: DecoderLayer;
  readonly #norm: VectorWeight;
  readonly #chainStep: Step = { ...EMPTY_STEP };

  /** @param attention Of all layers, the module's behind the others. */
  constructor(
    options: ModelOptions,
    shape: DecoderShape,
    attention: readonly DecoderLayer["attention"][],
  ) {
    const { memory } = options;
    const { hiddenSize, layers } = shape;
    const name = `model.layers.${layers}`;
    const norms = neighbouringVectors(memory, `${name} norms`, [
      { name: `${name}.enorm.weight`, length: hiddenSize },
      { name: `${name}.hnorm.weight`, length: hiddenSize },
    ]);
    const [enorm, hnorm] = norms.weights;
    this.#shape = shape;
    this.#options = options;
    this.#name = name;
    this.#norms = norms.tensor;
    this.#hiddenNorm = (hnorm!.tensor.offset - norms.tensor.offset) / FLOAT_BYTES;
    this.#project = new Linear(options, {
      name: `${name}.eh_proj`,
      rows: hiddenSize,
      columns: 2 * hiddenSize,
      split: "none",
    });
    // Its layer has experts wherever any has.
    const made = { index: layers, attention: attention[layers]!, isSparse: true };
    this.#layer = createLayer(options, shape, made);
    this.#norm = vectorWeight(memory, `${name}.shared_head.norm.weight`, hiddenSize);
    this.specs = [
      enorm!.spec,
      hnorm!.spec,
      ...this.#project.specs,
      ...layerSpecs(this.#layer),
      this.#norm.spec,
    ];
  }

  /** Tensors of its layer, and of layers behind it, that are not wanted: the first two are the target's. */
  ignores(name: string): boolean {
    const own = `${this.#name}.`;
    if (!name.startsWith(own)) return true;
    return ["embed_tokens.weight", "shared_head.head.weight"].includes(name.slice(own.length));
  }

  /** Adds its launches, behind the drawing of tokens. */
  compile(plan: Plan<Step>, target: DraftTarget, tensors: DraftBinding): void {
    const { inputs, drafts } = tensors;
    const joined = this.#allocateJoined();
    const propose = this.#bindProposal(plan, target, tensors);
    const sequencesOf = ({ draft }: Step) => draft!.sequences;
    const chained = { ...inputs, rows: drafts.rows, rowGroups: undefined };
    plan.within({ times: ({ draft }) => (draft === undefined ? 0 : 1) }, () => {
      plan.group("draft layer");
      const pending = this.#compileLayer(plan, target, joined, {
        inputs,
        rows: drafts.nextSources,
        rowWords: 1,
        join: this.#bindFirstJoin(plan, target, joined),
        tapped: "",
      });
      plan.within({ times: ({ draft }) => (draft!.steps > 0 ? 1 : 0) }, () => {
        plan.group("draft");
        plan.add(this.#bindAcceptance(plan, tensors));
        this.#compileNorm(plan, target, { pending, drafts, rowIndices: drafts.lastRows });
        plan.tap("mtp.hidden", drafts.hidden);
        plan.add(propose);
        plan.tap("mtp.logits", drafts.logits);
      });
      const times = ({ draft }: Step) => Math.max(draft!.steps - 1, 0);
      plan.within({ times, stepOf: (step) => this.#chainStepOf(step) }, () => {
        plan.group("draft chain");
        const shape = this.#joinShape(target, joined);
        const join = joinRows(plan.recorder, { ...shape, x: drafts.hidden });
        const pending = this.#compileLayer(plan, target, joined, {
          inputs: chained,
          rows: drafts.rows,
          rowWords: 4,
          join: (step) => join(sequencesOf(step)),
          tapped: "chain.",
        });
        this.#compileNorm(plan, target, { pending, drafts, rowIndices: drafts.places });
        plan.add(propose);
      });
    });
  }

  /** `[maxRows, joinedStride]` f32: both halves of the module's first projection. */
  #allocateJoined(): { readonly x: Tensor; readonly xStride: number } {
    const { memory, maxRows } = this.#options;
    const xStride = Math.ceil((2 * this.#shape.hiddenSize) / 4) * 4;
    const bytes = maxRows * xStride * FLOAT_BYTES;
    return { x: memory.allocate("activations", bytes, "joined rows"), xStride };
  }

  #joinShape({ blocks }: DraftTarget, joined: { readonly x: Tensor; readonly xStride: number }) {
    const { hiddenSize: cols, normEps: eps } = this.#shape;
    const { normedRows, hiddenStride: stride } = blocks.rows;
    return {
      // Free between the head that has read it and the norm that writes it.
      embedded: normedRows.tensor,
      weights: this.#norms,
      hiddenNorm: this.#hiddenNorm,
      out: joined.x,
      outStride: joined.xStride,
      cols,
      stride,
      eps,
    };
  }

  /** Joins the target's rows, which its last block may have left its part of apart. */
  #bindFirstJoin(
    { recorder }: Plan<Step>,
    target: DraftTarget,
    joined: { readonly x: Tensor; readonly xStride: number },
  ): (step: Step) => void {
    const { addend, isAdded } = target.pending;
    const finalWeight = target.norm.tensor;
    const { hidden: x } = target.blocks.rows;
    const shape = { ...this.#joinShape(target, joined), x, finalWeight };
    const whole = joinRows(recorder, shape);
    const adding = joinRows(recorder, { ...shape, addend });
    return (step) => (isAdded(step) ? whole : adding)(step.rows);
  }

  /** From tokens and hidden states to what the layer has made of them. */
  #compileLayer(
    plan: Plan<Step>,
    { blocks, embedding }: DraftTarget,
    joined: { readonly x: Tensor; readonly xStride: number },
    { inputs, rows: sources, rowWords, join, tapped }: Entering,
  ): Pending {
    const { shape, forms, rows } = blocks;
    const { hidden, hiddenStride: stride, normedRows } = rows;
    const { sampled, external } = inputs;
    const read = { rows: sources, sampled, external };
    embedding.compile(plan, { inputs: read, rowWords, out: normedRows.tensor, stride });
    plan.add(join);
    const output = { out: hidden, outStride: stride };
    const weight = this.#layer.attentionNorm;
    // The rows of the target's last layer, and of the draft before, were read for the last time.
    const isAdded = compileOutputs(plan, this.#project, {
      ...joined,
      ...output,
      segments: 1,
      replaces: true,
      residual: residualOf(rows, weight, forms),
    });
    plan.tap(`${tapped}mtp.eh_proj`, hidden);
    compileNorm(plan, shape, { rows, weight, pending: { isAdded }, forms });
    const index = this.#shape.layers;
    const name = `${tapped}layer${index}`;
    return compileLayer(plan, blocks, this.#layer, { index, name, next: this.#norm, inputs });
  }

  /** Norms one row of each sequence: the input of the head, and of the next draft. */
  #compileNorm(
    plan: Plan<Step>,
    { blocks }: DraftTarget,
    norm: {
      readonly pending: Pending;
      readonly drafts: DraftTensors;
      readonly rowIndices: Tensor;
    },
  ): void {
    const { pending, drafts, rowIndices } = norm;
    compileFinalNorm(plan, this.#shape, {
      rows: blocks.rows,
      weight: this.#norm,
      pending,
      rowIndices,
      out: drafts.hidden,
      countOf: ({ draft }) => draft!.sequences,
    });
  }

  #bindAcceptance(
    { recorder }: Plan<Step>,
    { inputs, drafts }: DraftBinding,
  ): (step: Step) => void {
    const { entries, lastRows, rows: nextRows, ends, draws } = drafts;
    const { logitRows, rows, sampled } = inputs;
    const read = { entries, logitRows, rows, sampled };
    const accept = acceptRows(recorder, { ...read, lastRows, nextRows, ends, draws });
    return ({ draft }) => accept(draft!.sequences);
  }

  /** From normed rows to drafts, and to the rows behind them: the same launches in both parts. */
  #bindProposal(
    { recorder }: Plan<Step>,
    { head, blocks }: DraftTarget,
    { inputs, drafts, padding }: DraftBinding,
  ): (step: Step) => void {
    const { hidden: x, logits, logitsStride: stride, best: ids, entries, ends, draws } = drafts;
    const { vocabularySize: vocabulary } = this.#shape;
    const input = { x, xStride: blocks.rows.hiddenStride };
    const multiply = head.bind(recorder, {
      ...input,
      out: logits,
      outStride: stride,
      phase: "decode",
    });
    const draw = sample(recorder, { logits, stride, vocabulary, ids, draws });
    const choose = argmax(recorder, { logits, stride, vocabulary, ids });
    const find = blocks.forms.findsBest
      ? head.bindBest(recorder, { ...input, work: logits, workStride: stride, ids })
      : undefined;
    const advance = advanceRows(recorder, {
      entries,
      best: ids,
      rows: drafts.rows,
      ends,
      draws,
      pageTables: inputs.pageTables,
      ids: inputs.sampled,
      pageSize: this.#options.pageSize,
      paddingSlot: padding.slot,
      paddingPage: padding.page,
    });
    return ({ draft }) => {
      const { sequences, firstId, draws: isDrawn, onlyBest } = draft!;
      if (onlyBest && find !== undefined) find(sequences);
      else {
        multiply(sequences);
        (isDrawn ? draw : choose)(sequences);
      }
      advance(sequences, firstId);
    };
  }

  /** A row of each sequence, in the form of generated ones. */
  #chainStepOf({ draft }: Step): Step {
    const { sequences, splits } = draft!;
    const sizes = { rows: sequences, decodeRows: sequences, logitRows: sequences };
    return Object.assign(this.#chainStep, { ...sizes, decodeSplits: splits, draft });
  }
}
