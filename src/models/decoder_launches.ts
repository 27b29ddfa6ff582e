/**
 * Which launches a decoder takes around the blocks of its layers, and what it leaves to them.
 *
 * @module
 */
import type { LinearLayout } from "../../kernels/linear/linear_layout.ts";
import type { ActivationRounding } from "../../kernels/norm/quantize.ts";
import type { Step } from "../layers/batch.ts";
import { type AddsRows, isFused, type MatrixRows, matrixRows } from "../layers/block_rows.ts";
import { always, type LayerLaunch } from "../layers/launches/launch_list.ts";

/** What a decoder does in every step, in one way or another. */
export interface DecoderForms {
  /** Whether int8 weights meet activations as codes. */
  readonly takesCodes: boolean;
  /** Whether the output head can find the best logit of each row itself. */
  readonly findsBest: boolean;
  /** Whether norms leave their scale to the launches that multiply the rows. */
  readonly leavesScale: boolean;
  /** Whether blocks may add to the residual stream and do the work of the norm behind them. */
  readonly foldsNorms: boolean;
  /** Whether normed rows are rounded by a launch of its own. */
  readonly roundsApart: boolean;
  readonly matrices: MatrixRows;
}

export function decoderForms(
  {
    tuning,
    matrix,
    halfProducts,
    packedDots,
  }: Pick<LinearLayout, "tuning" | "matrix" | "halfProducts" | "packedDots">,
  /** `rounding`: how the inputs of quantized linears are, where they are. */
  {
    rounding,
    ranks,
  }: {
    readonly rounding: ActivationRounding | undefined;
    readonly ranks: number;
  },
): DecoderForms {
  const alone = ranks === 1;
  const matrices = matrixRows(matrix);
  const roundsApart = rounding !== undefined && !isFused(rounding);
  // f16 has no room for rows that are not scaled.
  const leavesScale = !roundsApart && halfProducts !== true && matrices !== "all";
  return {
    // Ranks have parts of rows, whose codes would not be those of whole ones.
    takesCodes: rounding?.format === "int8" && packedDots === true && alone,
    // Several ranks bring the parts of their logits together first; matrices have no such launch.
    findsBest: tuning?.findsBest === true && matrices !== "all" && alone,
    leavesScale,
    foldsNorms: tuning?.foldsNorms === true && alone && leavesScale,
    roundsApart,
    matrices,
  };
}

/** The first rows of a step whose norms leave their scale: not those that matrices multiply. */
export function unscaledRows(
  { leavesScale, matrices }: Pick<DecoderForms, "leavesScale" | "matrices">,
  { rows, decodeRows }: Pick<Step, "rows" | "decodeRows">,
): number {
  if (!leavesScale) return 0;
  return matrices === "none" ? rows : decodeRows;
}

export type NormLaunch = "norm" | "round";

/** In front of a block. @param isAdded Steps in which the block before has done their work. */
export function normLaunches(
  { roundsApart }: Pick<DecoderForms, "roundsApart">,
  isAdded: AddsRows,
): readonly LayerLaunch<NormLaunch>[] {
  const takes = (step: Step) => !isAdded(step);
  const norm = { name: "norm", takes } as const;
  return roundsApart ? [norm, { name: "round", takes }] : [norm];
}

export type FinalNormLaunch = "finalNorm" | "addAndFinalNorm";

/** @param isAdded Steps in which the last block has added its result to the residual stream. */
export function finalNormLaunches(isAdded: AddsRows): readonly LayerLaunch<FinalNormLaunch>[] {
  return [
    { name: "finalNorm", takes: isAdded },
    { name: "addAndFinalNorm", takes: (step) => !isAdded(step) },
  ];
}

export type HeadLaunch = "findBest" | "logits";

export function headLaunches({
  findsBest,
}: Pick<DecoderForms, "findsBest">): readonly LayerLaunch<HeadLaunch>[] {
  if (!findsBest) return [{ name: "logits", takes: always }];
  return [
    { name: "findBest", takes: ({ onlyBest }) => onlyBest },
    { name: "logits", takes: ({ onlyBest }) => !onlyBest },
  ];
}
