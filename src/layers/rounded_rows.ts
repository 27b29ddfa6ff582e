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

export interface RoundedRowsOptions {
  /** `[rows, stride]` f32 */
  readonly x: Tensor;
  readonly stride: number;
  readonly columns: number;
  readonly rounding: ActivationRounding;
  /** Where codes go; without it rows are rounded in place. */
  readonly codes: LinearInput | undefined;
}

/**
 * Binds the launch that rounds rows, in place from row `first` on; says what of them is to be multiplied.
 */
export function roundedRows(
  recorder: Recorder,
  { x, stride, columns: cols, rounding, codes }: RoundedRowsOptions,
): { readonly input: LinearInput; readonly round: (rows: number, first?: number) => void } {
  if (codes === undefined) {
    return {
      input: { x, xStride: stride },
      round: quantize(recorder, { x, cols, stride, rounding }),
    };
  }
  const { group } = rounding;
  return { input: codes, round: quantizeCodes(recorder, { x, cols, stride, out: codes.x, group }) };
}
