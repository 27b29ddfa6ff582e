/**
 * What a decoder is made of, in numbers and parts.
 *
 * @module
 */
import type { Residual } from "../../kernels/linear/residual_linear.ts";
import type { ActivationRounding } from "../../kernels/norm/quantize.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Step } from "../layers/batch.ts";
import type { AddsRows, BlockRows } from "../layers/block_rows.ts";
import type { MoeShape } from "../layers/moe/moe_scratch.ts";
import type { StepTensors } from "../layers/step_tensors.ts";
import type { LayerTensors } from "./model_options.ts";

/** The attention of all layers: weights of each, working memory shared. */
export interface AttentionBlocks {
  readonly layers: readonly { readonly specs: readonly WeightSpec[] }[];
  /** Allocates the working memory. */
  bind(tensors: LayerTensors, rows: BlockRows): AttendLayer;
}

/**
 * Appends one layer's launches.
 *
 * @param inputs The rows that it is for, and `rows` where they are. Default: those that the attention is
 * bound with.
 */
export type AttendLayer = (
  plan: Plan<Step>,
  layer: number,
  residual: Residual | undefined,
  inputs?: StepTensors,
  rows?: BlockRows,
) => AddsRows;

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
