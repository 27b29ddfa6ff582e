/**
 * The rows of a step as the blocks of all layers have them, and the norm in front of a block.
 *
 * @module
 */
import type { Residual } from "../../kernels/linear/residual_linear.ts";
import { addNorm } from "../../kernels/norm/add_norm.ts";
import type { Addend } from "../../kernels/norm/addend.ts";
import { finalNorm } from "../../kernels/norm/final_norm.ts";
import { type NormedRows, normedShape, partOf } from "../../kernels/norm/normed_rows.ts";
import { type ActivationRounding, quantize } from "../../kernels/norm/quantize.ts";
import { quantizeCodes } from "../../kernels/norm/quantize_codes.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";
import type { Step } from "../layers/batch.ts";
import { type AddsRows, type BlockRows, isFused } from "../layers/block_rows.ts";
import { addLaunches } from "../layers/launches/launch_list.ts";
import { type LinearInput, RowCodes } from "../layers/rounded_rows.ts";
import type { VectorWeight } from "../layers/weights/vector_weight.ts";
import {
  type DecoderForms,
  finalNormLaunches,
  normLaunches,
  unscaledRows,
} from "./decoder_launches.ts";

export interface RowShape {
  readonly hiddenSize: number;
  readonly normEps: number;
}

export interface DecoderRows extends BlockRows {
  /** `[maxRows, hiddenStride]` f32: the residual stream */
  readonly hidden: Tensor;
  /** What norms write; rounded rows of other schemes than theirs are apart. */
  readonly normedRows: NormedRows;
}

/** What a block has made, and in which steps it has added that itself. */
export interface Pending {
  /** Undefined where it is in the residual stream in every step, which no norm has read yet. */
  readonly addend: Addend | undefined;
  readonly isAdded: AddsRows;
  /** Whether it is added in every step, and the norm behind the block has still its own work to do. */
  readonly leavesNorm?: boolean;
}

/** Where a norm stands. */
export interface NormPlace {
  readonly rows: DecoderRows;
  readonly weight: VectorWeight;
  /** Without an addend where a step has added it, or there is none. */
  readonly pending: (Pick<Pending, "isAdded"> & Partial<Pending>) | undefined;
  readonly forms: DecoderForms;
}

/** @param options `rounding`: how the inputs of quantized linears are, where they are. */
export function allocateRows(
  memory: DeviceMemory,
  { hiddenSize, normEps: eps }: RowShape,
  options: {
    readonly maxRows: number;
    readonly stride: number;
    readonly rounding: ActivationRounding | undefined;
    readonly forms: DecoderForms;
  },
): DecoderRows {
  const { maxRows, stride, rounding, forms } = options;
  const codes = forms.takesCodes ? new RowCodes(memory, maxRows) : undefined;
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

/** What blocks add to themselves in front of this norm, where they may. */
export function residualOf(
  { hidden, hiddenStride: stride, normedRows: normed }: DecoderRows,
  { tensor: weight }: VectorWeight,
  { foldsNorms }: DecoderForms,
): Residual | undefined {
  return foldsNorms ? { hidden, stride, weight, normed } : undefined;
}

/**
 * Adds what came before to the residual stream, norms it, and rounds it where that is wanted: where
 * the block before has not done so itself.
 */
export function compileNorm(
  plan: Plan<Step>,
  { hiddenSize: cols, normEps: eps }: RowShape,
  norm: NormPlace,
): void {
  const { recorder } = plan;
  const { rows, weight, forms } = norm;
  const pending = norm.pending?.leavesNorm === true ? undefined : norm.pending;
  const { hidden: x, normedRows: normed, hiddenStride: stride } = rows;
  addLaunches(plan, normLaunches(forms, pending?.isAdded ?? never), {
    norm: () => {
      const addend = pending?.addend;
      const add = addNorm(recorder, {
        x,
        addend,
        weight: weight.tensor,
        normed,
        cols,
        stride,
        eps,
      });
      return (step) => add(step.rows, unscaledRows(forms, step));
    },
    round: () => {
      const round = bindRound(recorder, rows, cols);
      return (step) => round(step.rows);
    },
  });
}

/** Adds it to the residual stream and nothing else that is read: the bits of a norm that does. */
export function compileSum(
  plan: Plan<Step>,
  { hiddenSize: cols, normEps: eps }: RowShape,
  { rows, weight, addend }: Pick<NormPlace, "rows" | "weight"> & { readonly addend: Addend },
): void {
  const { hidden: x, hiddenStride: stride, normedRows: normed } = rows;
  const shape = { x, weight: weight.tensor, normed, cols, stride, eps };
  const add = addNorm(plan.recorder, { ...shape, addend });
  plan.add((step) => add(step.rows));
}

/**
 * Adds what came before to the residual stream, where the block before has not, and norms the rows
 * that are wanted.
 */
export function compileFinalNorm(
  plan: Plan<Step>,
  { hiddenSize: cols, normEps: eps }: RowShape,
  norm: {
    readonly rows: DecoderRows;
    readonly weight: VectorWeight;
    readonly pending: Pending;
    /** `[count]` u32: the rows that are wanted */
    readonly rowIndices: Tensor;
    /** `[count, hiddenStride]` f32 */
    readonly out: Tensor;
    /** How many rows a step wants. */
    readonly countOf: (step: Step) => number;
  },
): void {
  const { recorder } = plan;
  const { pending, rowIndices, out, countOf } = norm;
  const { hidden: x, hiddenStride: stride } = norm.rows;
  const { addend, isAdded } = pending;
  const shape = { x, weight: norm.weight.tensor, out, cols, stride, eps, rowIndices };
  addLaunches(plan, finalNormLaunches(isAdded), {
    finalNorm: () => {
      const record = finalNorm(recorder, shape);
      return (step) => record(countOf(step));
    },
    addAndFinalNorm: () => {
      const record = finalNorm(recorder, { ...shape, addend });
      return (step) => record(countOf(step));
    },
  });
}

const never = () => false;

function bindRound(
  recorder: Recorder,
  { normed, quantized, rounding }: DecoderRows,
  cols: number,
): (rows: number) => void {
  const { x: out, xStride: outStride, coded } = quantized!;
  const shape = { x: normed.x, cols, stride: normed.xStride, out };
  return coded === true
    ? quantizeCodes(recorder, { ...shape, group: rounding!.group })
    : quantize(recorder, { ...shape, outStride, rounding: rounding! });
}
