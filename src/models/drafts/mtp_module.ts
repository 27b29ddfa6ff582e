/**
 * The multi-token-prediction module behind a decoder's last layer: from a row's final hidden state
 * and the token that comes next it predicts the token after that. It is one more decoder layer, whose
 * cache entry of a position stands where the target's of that position does. Token table and output
 * head are the target's. Rows of a chain have its own output instead of a hidden state of the target.
 *
 * Source: DeepSeek-AI, "DeepSeek-V3 Technical Report" (2024), section 2.2.
 *
 * @module
 */
import { joinRows } from "../../../kernels/speculation/join_rows.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import { Linear } from "../../layers/linear.ts";
import { compileOutputs } from "../../layers/ranks/row_parallel.ts";
import { ROW_WORDS, type StepTensors } from "../../layers/step_tensors.ts";
import {
  neighbouringVectors,
  type VectorWeight,
  vectorWeight,
} from "../../layers/weights/vector_weight.ts";
import { compileLayer, createLayer, type DecoderLayer, layerSpecs } from "../decoder_layer.ts";
import { compileFinalNorm, compileNorm, type Pending, residualOf } from "../decoder_rows.ts";
import type { DecoderShape } from "../decoder_shape.ts";
import type { DraftBinding, ModelOptions } from "../model_options.ts";
import {
  type DraftLaunches,
  type DraftNetwork,
  type DraftPart,
  type DraftTarget,
  ofEach,
} from "./draft_network.ts";

/** Both halves of the module's first projection. */
interface JoinedRows {
  /** `[maxRows, xStride]` f32 */
  readonly x: Tensor;
  readonly xStride: number;
}

/** What the rows of one part of a step come from. */
interface Entering {
  readonly inputs: StepTensors;
  /** Of the token table: the rows that it reads, and their words. */
  readonly rows: Tensor;
  readonly rowWords: number;
  /** Records the joining of a step's rows. */
  readonly join: (step: Step) => void;
  /** In front of the names of its taps. */
  readonly tapped: string;
}

const FLOAT_BYTES = 4;

export class MtpModule implements DraftNetwork {
  readonly enters = "next tokens";
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

  get hiddenSize(): number {
    return this.#shape.hiddenSize;
  }

  /** Tensors of its layer, and of layers behind it, that are not wanted: the first two are the target's. */
  ignores(name: string): boolean {
    const own = `${this.#name}.`;
    if (!name.startsWith(own)) return true;
    return ["embed_tokens.weight", "shared_head.head.weight"].includes(name.slice(own.length));
  }

  bind(plan: Plan<Step>, target: DraftTarget, tensors: DraftBinding): DraftLaunches {
    const joined = this.#allocateJoined();
    return {
      head: target.head,
      hiddenStride: target.blocks.rows.hiddenStride,
      findsBest: target.blocks.forms.findsBest,
      compileRows: (part) => {
        const entering = this.#entering(plan, { part, target, tensors, joined });
        const pending = this.#compileLayer(plan, target, joined, entering);
        return (rowIndices, { countOf = ofEach } = {}) =>
          compileFinalNorm(plan, this.#shape, {
            rows: target.blocks.rows,
            weight: this.#norm,
            pending,
            rowIndices,
            out: tensors.drafts.hidden,
            countOf,
          });
      },
    };
  }

  #entering(
    plan: Plan<Step>,
    bound: {
      readonly part: DraftPart;
      readonly target: DraftTarget;
      readonly tensors: DraftBinding;
      readonly joined: JoinedRows;
    },
  ): Entering {
    const { part, target, joined } = bound;
    const { inputs, drafts } = bound.tensors;
    if (part === "step") {
      const join = this.#bindFirstJoin(plan, target, joined);
      return { inputs, rows: drafts.nextSources, rowWords: 1, join, tapped: "" };
    }
    const shape = this.#joinShape(target, joined);
    const join = joinRows(plan.recorder, { ...shape, x: drafts.hidden });
    const { rows } = drafts;
    return {
      inputs: { ...inputs, rows, rowGroups: undefined },
      rows,
      rowWords: ROW_WORDS,
      join: (step) => join(step.rows),
      tapped: "chain.",
    };
  }

  #allocateJoined(): JoinedRows {
    const { memory, maxRows } = this.#options;
    const xStride = Math.ceil((2 * this.#shape.hiddenSize) / 4) * 4;
    const bytes = maxRows * xStride * FLOAT_BYTES;
    return { x: memory.allocate("activations", bytes, "joined rows"), xStride };
  }

  #joinShape({ blocks }: DraftTarget, joined: JoinedRows) {
    const { hiddenSize: cols, normEps: eps } = this.#shape;
    const { normedRows, hiddenStride: stride } = blocks.rows;
    return {
      // Free between the head that has read it and the norm that writes it.
      embedded: normedRows.tensor,
      norms: { weights: this.#norms, hidden: this.#hiddenNorm },
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
    joined: JoinedRows,
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
    joined: JoinedRows,
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
}
