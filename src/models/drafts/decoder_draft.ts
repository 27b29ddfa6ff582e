/**
 * A whole decoder that drafts for another of the same tokens: embedding, layers, norm and head are
 * its own, and so is its cache. It needs nothing that the target has computed, so its rows enter with
 * the target's, and its first draft comes from the token that the target draws.
 *
 * @module
 */
import type { ActivationRounding } from "../../../kernels/norm/quantize.ts";
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Step } from "../../layers/batch.ts";
import type { OutputHead } from "../../layers/ranks/output_head.ts";
import type { DecoderForms } from "../decoder_launches.ts";
import { bindBlocks, compileStack, type DecoderStack } from "../decoder_layer.ts";
import { allocateRows, compileFinalNorm } from "../decoder_rows.ts";
import type { AttentionBlocks, DecoderShape } from "../decoder_shape.ts";
import type { DraftBinding, ModelOptions } from "../model_options.ts";
import {
  type DraftLaunches,
  type DraftNetwork,
  type DraftTarget,
  ofEach,
} from "./draft_network.ts";

/** What a decoder is made of. */
export interface DecoderParts {
  readonly shape: DecoderShape;
  readonly options: ModelOptions;
  /** How the inputs of quantized linears are rounded, where they are. */
  readonly rounding: ActivationRounding | undefined;
  readonly forms: DecoderForms;
  readonly attention: AttentionBlocks;
  readonly stack: DecoderStack;
  readonly head: OutputHead;
}

export class DecoderDraft implements DraftNetwork {
  readonly enters = "own tokens";
  readonly specs: readonly WeightSpec[];
  readonly #decoder: Pick<DraftNetwork, "specs" | "ignores">;
  readonly #parts: DecoderParts;

  /** @param decoder Whose parts they are. */
  constructor(decoder: Pick<DraftNetwork, "specs" | "ignores">, parts: DecoderParts) {
    this.specs = decoder.specs;
    this.#decoder = decoder;
    this.#parts = parts;
  }

  get hiddenSize(): number {
    return this.#parts.shape.hiddenSize;
  }

  ignores(name: string): boolean {
    return this.#decoder.ignores(name);
  }

  bind(plan: Plan<Step>, _target: DraftTarget, tensors: DraftBinding): DraftLaunches {
    const { shape, options, rounding, forms, attention, stack, head } = this.#parts;
    const { memory, maxRows } = options;
    const { drafts } = tensors;
    const stride = Math.ceil(shape.hiddenSize / 4) * 4;
    const rows = allocateRows(memory, shape, { maxRows, stride, rounding, forms });
    // Embeddings that come with a request are of the target's space: rows of them are zero here.
    const external = memory.allocate("activations", maxRows * stride * 4, "draft external rows");
    const inputs = { ...tensors.inputs, external };
    const { layers } = stack;
    const own = { inputs, cache: tensors.cache! };
    const bound = { shape, forms, rows, attention, layers, tensors: own };
    const blocks = bindBlocks(plan, options, bound);
    return {
      head,
      hiddenStride: stride,
      findsBest: forms.findsBest,
      compileRows: (part) => {
        const own = { ...inputs, rows: drafts.rows, rowGroups: undefined };
        const pending = compileStack(plan, blocks, stack, {
          inputs: part === "step" ? inputs : own,
          tapped: part === "step" ? "draft." : "chain.draft.",
        });
        return (rowIndices, { countOf = ofEach } = {}) =>
          compileFinalNorm(plan, shape, {
            rows,
            weight: stack.norm,
            pending,
            rowIndices,
            out: drafts.hidden,
            countOf,
          });
      },
    };
  }
}
