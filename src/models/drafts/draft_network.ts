/**
 * A network that drafts: it gives a step's rows cache entries of its own, and makes the hidden rows
 * that drafts are chosen from.
 *
 * @module
 */
import type { WeightSpec } from "../../checkpoint/weight_spec.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Step } from "../../layers/batch.ts";
import type { Embedding } from "../../layers/embedding.ts";
import type { OutputHead } from "../../layers/ranks/output_head.ts";
import type { VectorWeight } from "../../layers/weights/vector_weight.ts";
import type { LayerBlocks } from "../decoder_layer.ts";
import type { Pending } from "../decoder_rows.ts";
import type { DraftBinding } from "../model_options.ts";

/** A row of each sequence that gets drafts. */
export const ofEach = ({ draft }: Step): number => draft!.sequences;

/** What a network can share with the model that it drafts for. */
export interface DraftTarget {
  readonly blocks: LayerBlocks;
  /** What its last layer has made of the step's rows. */
  readonly pending: Pending;
  /** Its final norm. */
  readonly norm: VectorWeight;
  readonly embedding: Embedding;
  readonly head: OutputHead;
}

/** The rows that a network runs for: all of the step, or in a chain the newest drafts of each sequence. */
export type DraftPart = "step" | "chain";

export interface DraftNetwork {
  readonly specs: readonly WeightSpec[];
  /**
   * What a row of the step enters its cache with: the token behind it, which the step may have to draw
   * first, and what the target has made of the row; or its own token, as the target's rows do.
   */
  readonly enters: "next tokens" | "own tokens";
  /** Width of its hidden rows. */
  readonly hiddenSize: number;
  /** Layers of the target in front of which it takes the rows. Default: none. */
  readonly captures?: readonly number[] | undefined;
  /** Tensors of its checkpoint, or behind the target's layers, that it does not want. */
  ignores(name: string): boolean;
  /** Allocates its working memory. */
  bind(plan: Plan<Step>, target: DraftTarget, tensors: DraftBinding): DraftLaunches;
}

/** What of a network's rows a step goes on with. */
export interface WantedRows {
  /** Default: one of each sequence. */
  readonly countOf?: (step: Step) => number;
  /** What reads them, where they are not the same for both. Default: both. */
  readonly readBy?: "head" | "rows behind";
}

export interface DraftLaunches {
  /** Makes logits of the hidden rows. */
  readonly head: OutputHead;
  /** Elements from one hidden row to the next. */
  readonly hiddenStride: number;
  /** Whether the head can find the best logit of each row itself. */
  readonly findsBest: boolean;
  /** Tokens that the head knows, where those are fewer than the target's. */
  readonly tokens?: {
    readonly count: number;
    /** `[count]` u32: the target's id of each */
    readonly targetIds: Tensor;
  };
  /**
   * Adds the launches from tokens to what the last layer has made of them.
   *
   * @returns What adds those that leave the rows of these indices, one of each sequence or as many as
   * is said, where the head and the rows behind them in a chain read them.
   */
  compileRows(part: DraftPart): (rowIndices: Tensor, wanted?: WantedRows) => void;
}
