/**
 * Scales and zero points as AutoAWQ and GPTQ files hold them, as the scale words of the linear
 * kernels: one for each output and group of inputs.
 *
 * @module
 */
import { decodeF16 } from "../../../src/dtype.ts";
import { KernelError, UnsupportedError } from "../../../src/errors.ts";
import type { PlaceOf } from "./weight_order.ts";

/** How a file has four-bit codes, the inputs first: `[inputs, outputs / 8]` or `[inputs / 8, outputs]`. */
export type ColumnPacking = "awq" | "gptq";

/** Output, of eight neighbours, that each nibble of an AWQ word belongs to. */
export const AWQ_OUTPUTS: readonly number[] = [0, 2, 4, 6, 1, 3, 5, 7];

/** A packed matrix of a checkpoint, and the slice of it that is meant: whole groups of its inputs. */
export interface ColumnSlice {
  readonly packing: ColumnPacking;
  /** Outputs and inputs of the matrix in the checkpoint. */
  readonly sourceRows: number;
  readonly sourceColumns: number;
  /** Outputs `[sourceRow, sourceRow + rows)` are meant. Default: all of them. */
  readonly sourceRow?: number;
  readonly rows?: number;
  /** Inputs `[sourceColumn, sourceColumn + columns)` are meant. Default: all of them. */
  readonly sourceColumn?: number;
  readonly columns?: number;
  /** Where the first output goes: the first of a run. Default 0. */
  readonly firstRow?: number;
}

export interface ColumnScales extends ColumnSlice {
  /** The whole of `qzeros`, `[groups, sourceRows / 8]` words. */
  readonly qzeros: Uint8Array;
  /** The whole of `scales`, `[groups, sourceRows]`. */
  readonly scales: Uint8Array;
  readonly scalesDtype: "F16" | "BF16" | "F32";
  readonly groupColumns: 32 | 64 | 128;
  /** Added to the stored zero points. Default 0 for AWQ, 1 for GPTQ. */
  readonly zeroOffset?: number;
  /** The rows go to `firstRow` and on. */
  readonly into: Uint32Array;
  /** Where scales lie in it. */
  readonly place: PlaceOf;
}

const bits = new Uint32Array(1);
const float = new Float32Array(bits.buffer);

/** Writes a slice's scale words: a float32 whose low five bits are zero, with the zero point there. */
export function packColumnScales(options: ColumnScales): void {
  const { packing, qzeros, groupColumns, sourceRows, into, place } = options;
  const { sourceRow = 0, sourceColumn = 0, firstRow = 0 } = options;
  const { rows = sourceRows - sourceRow } = options;
  const { columns = options.sourceColumns - sourceColumn } = options;
  const { zeroOffset = packing === "gptq" ? 1 : 0 } = options;
  if (sourceColumn % groupColumns !== 0) {
    throw new KernelError(
      "linear/column_scales",
      `column ${sourceColumn} is not a multiple of ${groupColumns}`,
    );
  }
  const zeros = new DataView(qzeros.buffer, qzeros.byteOffset, qzeros.byteLength);
  const wordOf = scaleReader(options);
  const shifts = AWQ_OUTPUTS.map((_, output) =>
    packing === "awq" ? 4 * AWQ_OUTPUTS.indexOf(output) : 4 * output,
  );
  const groups = Math.ceil(columns / groupColumns);
  const firstGroup = sourceColumn / groupColumns;
  for (let group = 0; group < groups; group++) {
    const start = (firstGroup + group) * sourceRows;
    for (let r = 0; r < rows; r++) {
      const output = sourceRow + r;
      const word = zeros.getUint32(((start + output) >>> 3) * 4, true);
      const zero = ((word >>> shifts[output & 7]!) & 15) + zeroOffset;
      into[place(firstRow + r, group)] = wordOf(start + output) | zero;
    }
  }
}

/** Reads scale number i as the bits of a float32 whose low five are zero. */
function scaleReader({ scales, scalesDtype }: ColumnScales): (i: number) => number {
  const view = new DataView(scales.buffer, scales.byteOffset, scales.byteLength);
  switch (scalesDtype) {
    case "BF16":
      return (i) => view.getUint16(i * 2, true) << 16;
    case "F16":
      return (i) => widenF16(view.getUint16(i * 2, true));
    case "F32":
      return (i) => {
        const word = view.getUint32(i * 4, true);
        return (word + 15 + ((word >>> 5) & 1)) & ~31;
      };
    default:
      return scalesDtype satisfies never;
  }
}

/** Bits of the float32 of the same finite value. */
function widenF16(half: number): number {
  const magnitude = half & 0x7fff;
  // Everything but subnormals only moves, and its exponent's bias is larger by 112.
  if (magnitude >= 0x400) return ((half & 0x8000) << 16) | ((magnitude << 13) + (112 << 23));
  float[0] = decodeF16(half);
  return bits[0]!;
}

/** Which inputs of a matrix an order is about, and how many of them make a group. */
export interface InputGroups {
  readonly groupColumns: number;
  /** Default 0. */
  readonly firstColumn?: number;
}

/**
 * Refuses GPTQ weights whose inputs were put in another order (`desc_act`).
 *
 * @param name Of the tensor, for the message.
 * @param gIdx Of `g_idx`: the group of each input from the first on, I32.
 * @throws {UnsupportedError} when a group is not a run of `groupColumns` inputs, in order.
 */
export function checkGroupOrder(
  name: string,
  gIdx: Uint8Array,
  { groupColumns, firstColumn = 0 }: InputGroups,
): void {
  const view = new DataView(gIdx.buffer, gIdx.byteOffset, gIdx.byteLength);
  for (let k = 0; k < gIdx.length / 4; k++) {
    const input = firstColumn + k;
    const group = Math.floor(input / groupColumns);
    if (view.getInt32(k * 4, true) === group) continue;
    throw new UnsupportedError(`${name} with desc_act`, `input ${input} is not in group ${group}`);
  }
}
