/**
 * Rows as a linear multiplies them: as they are, rounded, or as int8 codes.
 *
 * @module
 */
import type { RowSquares } from "../../kernels/norm/normed_rows.ts";
import { type ActivationRounding, quantize } from "../../kernels/norm/quantize.ts";
import { codedStride, quantizeCodes } from "../../kernels/norm/quantize_codes.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";

/** What linears take. */
export interface LinearInput {
  /** `[rows, xStride]` f32, or words of codes */
  readonly x: Tensor;
  readonly xStride: number;
  /** Whether they are codes, as `quantizeCodes` writes them. */
  readonly coded?: boolean;
  /** Where their sums of squares are, if they are still to be scaled by them. */
  readonly squares?: RowSquares;
}

/** Where codes of rows go, in tensors that layers share: those of one label are read before the next. */
export class RowCodes {
  readonly #memory: DeviceMemory;
  readonly #maxRows: number;
  readonly #tensors = new Map<string, Tensor>();

  constructor(memory: DeviceMemory, maxRows: number) {
    this.#memory = memory;
    this.#maxRows = maxRows;
  }

  /** @param perRow Rows of codes that a row of the step has. Default 1. */
  input(label: string, columns: number, perRow = 1): LinearInput {
    const xStride = codedStride(columns);
    const bytes = this.#maxRows * perRow * xStride * 4;
    const key = `${label} ${bytes}`;
    const x =
      this.#tensors.get(key) ?? this.#memory.allocate("activations", bytes, `codes of ${label}`);
    this.#tensors.set(key, x);
    return { x, xStride, coded: true };
  }
}

/**
 * How the inputs of a linear are rounded: not at all, by the kernels that make them, or by a launch
 * of its own.
 */
export type InputRounding = "none" | "inKernel" | "apart";

/** Rows that a block makes for its next linear. */
export interface InnerRows {
  /** `[rows * perRow, xStride]` f32 */
  readonly x: Tensor;
  readonly xStride: number;
  readonly columns: number;
  /** Of their codes: see `RowCodes`. */
  readonly label: string;
  /** Rows of them that a row of the step has. Default 1. */
  readonly perRow?: number;
}

/** What of them the linear multiplies: codes where their rounding makes some, else the same rows. */
export function innerInput(
  { x, xStride, columns, label, perRow }: InnerRows,
  rounding: InputRounding,
  codes: RowCodes | undefined,
): LinearInput {
  const coded = rounding === "none" ? undefined : codes?.input(label, columns, perRow);
  return coded ?? { x, xStride };
}

/** Binds the launch that rounds rows from row `first` on, in place or to codes. */
export function roundRows(
  recorder: Recorder,
  { x, xStride: stride, columns: cols }: InnerRows,
  rounding: ActivationRounding,
  input: LinearInput,
): (rows: number, first?: number) => void {
  if (input.coded !== true) return quantize(recorder, { x, cols, stride, rounding });
  return quantizeCodes(recorder, { x, cols, stride, out: input.x, group: rounding.group });
}
