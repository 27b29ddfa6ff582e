/**
 * How a weight matrix lies on the GPU, and how checkpoint bytes get there.
 *
 * Rows are padded with zeros to a multiple of `lanes`, columns to a multiple of 128. A row is cut
 * into granules of 16 bytes; the granules of `lanes` neighbouring rows lie side by side:
 * granule g of row r is number `(floor(r / lanes) * granulesPerRow + g) * lanes + r % lanes`.
 * Scales are spread to words for every row, `scales[group * rowsPadded + r]`:
 *
 * | dtype | group | word |
 * |---|---|---|
 * | fp8, int8 | 128 columns | f32 scale |
 * | int4 | `groupColumns` | `int4ScaleWord()`: f32 scale and zero point |
 * | mxfp4 | 128 columns | byte i: E8M0 exponent of columns 32 i to 32 i + 31 |
 *
 * A code of 4 bits lies in bits 4 i of its word, in the order of the columns.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { PLAIN_TUNING, type Tuning, takesPackedDots, tuningFor } from "../../src/gpu/tuning.ts";
import type { MatrixTiles } from "./matrix_tiles.ts";

/**
 * `int8`: two's complement codes, value = code * scale. `int4`: codes 0 to 15, value =
 * (code - zero) * scale. `mxfp4`: E2M1 codes, value = code's number * 2^(exponent - 127).
 */
export type WeightDtype = "bf16" | "f16" | "f32" | "fp8" | "int8" | "int4" | "mxfp4";

/** Neighbouring columns of a row that share a scale in int4. */
export type GroupColumns = 32 | 64 | 128;

/** How FP8 codes become numbers: through f16, or bit by bit where f16 subnormals are flushed. */
export type Fp8Decode = "half" | "bits";

/** What an adapter prefers; chosen once, before the weights are uploaded. */
export interface LinearLayout {
  /** Rows whose granules lie side by side. */
  readonly lanes: number;
  /** Default "half". */
  readonly fp8Decode?: Fp8Decode;
  /**
   * Invocations of a subgroup, at least 4, where every workgroup is known to be cut in subgroups
   * of this size, in order. Kernels then share loads of `x`; the bits stay the same.
   */
  readonly subgroupSize?: number;
  /**
   * Whether rounded activations stay int8 codes where they meet int8 weights: only where
   * `dot4I8Packed` is there and right. Default false.
   */
  readonly packedDots?: boolean;
  /**
   * Whether weights and activations are multiplied in f16 (numeric class f16), but for weights in
   * f32: needs the feature shader-f16. Default false.
   */
  readonly halfProducts?: boolean;
  /** Multiplies prompt rows, or all rows, by matrices (numeric class mma128): see `tilesOf()`. */
  readonly matrix?: MatrixTiles | undefined;
  /** How launches are shared out; its `lanes` are those above. Default `PLAIN_TUNING`. */
  readonly tuning?: Tuning;
}

/** What every adapter can do, and what sizes are counted with where there is no device. */
export const DEFAULT_LAYOUT: LinearLayout = { lanes: PLAIN_TUNING.lanes };

/**
 * The layout of a tuning, with the subgroup size of a device whose subgroups are all of one size.
 *
 * @param tuning Default: that of the device's adapter.
 */
export function layoutFor(
  device: GPUDevice,
  tuning: Tuning = tuningFor(device.adapterInfo),
): LinearLayout {
  const { subgroupMinSize: smallest, subgroupMaxSize: largest } = device.adapterInfo;
  const known = device.features.has("subgroups") && smallest === largest && smallest >= 4;
  return {
    ...{ lanes: tuning.lanes, tuning, packedDots: takesPackedDots(device.adapterInfo) },
    ...(known && { subgroupSize: smallest }),
  };
}

/** A weight matrix on the GPU. */
export interface LinearWeight extends LinearLayout {
  readonly dtype: WeightDtype;
  /** Outputs. */
  readonly rows: number;
  /** Inputs. */
  readonly columns: number;
  readonly rowsPadded: number;
  /** int4 only. Default 128. */
  readonly groupColumns?: GroupColumns;
  /** Interleaved granules. */
  readonly words: Tensor;
  /** `[groups, rowsPadded]` u32; only where the dtype has scales. */
  readonly scales?: Tensor;
  /** `[rowsPadded]` f32, added to each output once. */
  readonly bias?: Tensor;
}

/**
 * The same matrix of many experts on the GPU, stacked in slabs of consecutive experts. Within a
 * slab, an expert's granules and scales follow those of the expert before. Experts that no slab
 * holds are left out by the kernels.
 */
export interface ExpertWeights extends LinearLayout {
  readonly dtype: WeightDtype;
  /** Physical experts that there are, in a slab or not. */
  readonly expertCount: number;
  /** Outputs of one expert. */
  readonly rows: number;
  /** Inputs of one expert. */
  readonly columns: number;
  /** int4 only. Default 128. */
  readonly groupColumns?: GroupColumns;
  readonly slabs: readonly ExpertSlab[];
}

export interface ExpertSlab {
  readonly firstExpert: number;
  readonly expertCount: number;
  readonly words: Tensor;
  /** Only where the dtype has scales. */
  readonly scales?: Tensor;
  /** `[expertCount, rowsPadded]` f32, added to each output once. */
  readonly bias?: Tensor;
}

/** Columns that a row is padded to a multiple of, and that row-parallel linears are cut at. */
export const BLOCK_COLUMNS = 128;
const GRANULE_BYTES = 16;
const GRANULE_WORDS = 4;
/** Segments that a row-parallel linear is cut in at most. */
const MOST_SEGMENTS = 32;

/** Bytes of an element; a half where two share a byte. */
export const WEIGHT_BYTES: Readonly<Record<WeightDtype, number>> = {
  f32: 4,
  bf16: 2,
  f16: 2,
  fp8: 1,
  int8: 1,
  int4: 0.5,
  mxfp4: 0.5,
};

/** Words of scales that a row of `columns` elements takes; 0 where the dtype has no scales. */
export function scaleWords(shape: Pick<WeightShape, "dtype" | "columns" | "groupColumns">): number {
  const { dtype, columns, groupColumns = BLOCK_COLUMNS } = shape;
  const blocks = Math.ceil(columns / BLOCK_COLUMNS);
  switch (dtype) {
    case "bf16":
    case "f16":
    case "f32":
      return 0;
    case "fp8":
    case "int8":
    case "mxfp4":
      return blocks;
    case "int4":
      return blocks * (BLOCK_COLUMNS / groupColumns);
    default:
      return dtype satisfies never;
  }
}

const scratchFloat = new Float32Array(1);
const scratchBits = new Uint32Array(scratchFloat.buffer);
const ZERO_BITS = 5;

/**
 * The scale word of an int4 group: the bits of `scale`, rounded to nearest with the low 5 bits
 * zero (exact for what F16 and BF16 hold), and `zero` in those.
 *
 * @param zero 0 to 31: the code that stands for 0.
 */
export function int4ScaleWord(scale: number, zero: number): number {
  scratchFloat[0] = scale;
  const bits = scratchBits[0]!;
  const rounded = bits + 15 + ((bits >>> ZERO_BITS) & 1);
  return (((rounded >>> ZERO_BITS) << ZERO_BITS) | zero) >>> 0;
}

/** Segments in which a row-parallel linear of `columns` inputs adds its 128-column blocks. */
export function segments(columns: number): number {
  return Math.min(MOST_SEGMENTS, Math.ceil(columns / BLOCK_COLUMNS));
}

/** How one of several ranks adds the inputs it has of a row-parallel linear. */
export interface RankSegments {
  /** Runs of columns whose sums it sends. */
  readonly parts: number;
  /** Segments of each run: a subtree of the whole linear's tree. */
  readonly segments: number;
}

/**
 * How each of `ranks` ranks adds its share of `columns` inputs, so that `joinSums` gives the bits
 * that the whole linear has; undefined when they would cut a segment.
 */
export function rankSegments(columns: number, ranks: number): RankSegments | undefined {
  const all = segments(columns);
  if (columns % (ranks * BLOCK_COLUMNS) !== 0 || all % ranks !== 0) return undefined;
  const own = all / ranks;
  // The largest power of two in it: runs of so many segments are subtrees wherever a rank begins.
  const run = own & -own;
  return { parts: own / run, segments: run };
}

export function paddedRows(rows: number, lanes: number): number {
  return Math.ceil(rows / lanes) * lanes;
}

/** First row of the `up` half of a fused gate-and-up weight, and the rows of both halves. */
export function gateUpRows(
  intermediate: number,
  lanes: number,
): { readonly upRow: number; readonly rows: number } {
  const upRow = paddedRows(intermediate, lanes);
  return { upRow, rows: 2 * upRow };
}

export interface WeightShape {
  readonly dtype: WeightDtype;
  readonly rows: number;
  readonly columns: number;
  readonly lanes: number;
  /** int4 only. Default 128. */
  readonly groupColumns?: GroupColumns;
}

/** Bytes that a matrix takes on the GPU. */
export function weightBytes(shape: WeightShape): {
  readonly words: number;
  readonly scales: number;
} {
  const { dtype, rows, columns, lanes } = shape;
  const blocks = Math.ceil(columns / BLOCK_COLUMNS);
  const padded = paddedRows(rows, lanes);
  return {
    words: padded * blocks * BLOCK_COLUMNS * WEIGHT_BYTES[dtype],
    scales: padded * scaleWords(shape) * 4,
  };
}

/** Packed rows, ready for one write at byte `firstRow * bytesPerRow` of the matrix. */
export interface PackedRun {
  /** A multiple of `lanes`. */
  readonly firstRow: number;
  readonly byteOffset: number;
  /** Overwritten by the packer's next call. */
  readonly words: Uint32Array<ArrayBuffer>;
}

/**
 * Turns row-major bytes, in pieces of any number of rows, into packed runs. Two codes of 4 bits
 * share a byte, the even column in its low half.
 */
export class RowPacker {
  readonly #rowBytes: number;
  readonly #lanes: number;
  readonly #granules: number;
  readonly #groupWords: number;
  readonly #scratch: Uint32Array<ArrayBuffer>;
  readonly #scratchBytes: Uint8Array;
  #buffer: Uint32Array<ArrayBuffer>;
  /** Row of the matrix that the next group starts with. */
  #nextRow: number;
  /** Rows of an unfinished group, and the number of that group in the buffer. */
  #filled = 0;
  #filledGroup = 0;

  /** @param shape `firstRow` is where the first row pushed goes: a multiple of `lanes`. */
  constructor(shape: Omit<WeightShape, "rows"> & { readonly firstRow?: number }) {
    const { dtype, columns, lanes, firstRow = 0 } = shape;
    if (firstRow % lanes !== 0) {
      throw new KernelError("linear/layout", `row ${firstRow} is not a multiple of ${lanes}`);
    }
    this.#rowBytes = Math.ceil(columns * WEIGHT_BYTES[dtype]);
    this.#lanes = lanes;
    const blockBytes = BLOCK_COLUMNS * WEIGHT_BYTES[dtype];
    this.#granules = (Math.ceil(columns / BLOCK_COLUMNS) * blockBytes) / GRANULE_BYTES;
    this.#groupWords = this.#granules * lanes * GRANULE_WORDS;
    this.#scratch = new Uint32Array(this.#granules * GRANULE_WORDS);
    this.#scratchBytes = new Uint8Array(this.#scratch.buffer);
    this.#buffer = new Uint32Array(this.#groupWords);
    this.#nextRow = firstRow;
  }

  /**
   * Takes `rows` rows of bytes.
   *
   * @returns Every group of `lanes` rows that is complete by now, or undefined when there is none.
   */
  push(bytes: Uint8Array, rows: number): PackedRun | undefined {
    if (bytes.byteLength !== rows * this.#rowBytes) {
      throw new KernelError(
        "linear/layout",
        `${bytes.byteLength} bytes are not ${rows} rows of ${this.#rowBytes}`,
      );
    }
    this.#moveFilled();
    const total = this.#filled + rows;
    this.#reserve(Math.ceil(total / this.#lanes));
    const direct = this.#rowBytes % GRANULE_BYTES === 0 && bytes.byteOffset % 4 === 0;
    const words = direct
      ? new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)
      : this.#scratch;
    for (let r = 0; r < rows; r++) {
      const start = r * this.#rowBytes;
      if (!direct) this.#scratchBytes.set(bytes.subarray(start, start + this.#rowBytes));
      this.#packRow(this.#filled + r, words, direct ? start / 4 : 0);
    }
    const groups = Math.floor(total / this.#lanes);
    this.#filled = total % this.#lanes;
    this.#filledGroup = groups;
    return this.#take(groups);
  }

  /** Pads the unfinished group with zero rows and returns it, or undefined when there is none. */
  finish(): PackedRun | undefined {
    if (this.#filled === 0) return undefined;
    this.#moveFilled();
    this.#scratch.fill(0);
    for (let lane = this.#filled; lane < this.#lanes; lane++) this.#packRow(lane, this.#scratch, 0);
    this.#filled = 0;
    return this.#take(1);
  }

  #packRow(row: number, words: Uint32Array, start: number): void {
    const buffer = this.#buffer;
    const step = this.#lanes * GRANULE_WORDS;
    const used = Math.ceil(this.#rowBytes / GRANULE_BYTES) * GRANULE_WORDS;
    let to = Math.floor(row / this.#lanes) * this.#groupWords + (row % this.#lanes) * GRANULE_WORDS;
    for (let from = start; from < start + used; from += GRANULE_WORDS) {
      buffer[to] = words[from]!;
      buffer[to + 1] = words[from + 1]!;
      buffer[to + 2] = words[from + 2]!;
      buffer[to + 3] = words[from + 3]!;
      to += step;
    }
  }

  #moveFilled(): void {
    if (this.#filledGroup === 0) return;
    const start = this.#filledGroup * this.#groupWords;
    if (this.#filled > 0) this.#buffer.copyWithin(0, start, start + this.#groupWords);
    this.#filledGroup = 0;
  }

  #reserve(groups: number): void {
    if (this.#buffer.length >= groups * this.#groupWords) return;
    // The padding columns of every group are never written, so they stay zero.
    const larger = new Uint32Array(groups * this.#groupWords);
    larger.set(this.#buffer.subarray(0, this.#groupWords));
    this.#buffer = larger;
  }

  #take(groups: number): PackedRun | undefined {
    if (groups === 0) return undefined;
    const firstRow = this.#nextRow;
    this.#nextRow += groups * this.#lanes;
    return {
      firstRow,
      byteOffset: firstRow * this.#granules * GRANULE_BYTES,
      words: this.#buffer.subarray(0, groups * this.#groupWords),
    };
  }
}

export interface SpreadScales {
  /** `[row blocks, column blocks]` of 128x128, as a checkpoint holds it. */
  readonly blockScales: Float32Array;
  readonly columnBlocks: number;
  /** Rows to spread, starting with row `sourceRow` of the checkpoint's matrix. */
  readonly rows: number;
  readonly sourceRow?: number;
  /** Column blocks to spread: all of them by default. */
  readonly firstColumnBlock?: number;
  readonly columnBlockCount?: number;
  /** `[columnBlockCount, rowsPadded]`; the rows go to `firstRow` and on. */
  readonly into: Float32Array;
  readonly rowsPadded: number;
  readonly firstRow?: number;
}

/** Spreads the scales of 128x128 blocks to one for each row and 128 columns. */
export function spreadScales(options: SpreadScales): void {
  const { blockScales, columnBlocks, rows, into, rowsPadded } = options;
  const { sourceRow = 0, firstRow = 0, firstColumnBlock = 0 } = options;
  const count = options.columnBlockCount ?? columnBlocks - firstColumnBlock;
  for (let block = 0; block < count; block++) {
    for (let r = 0; r < rows; r++) {
      const source = Math.floor((sourceRow + r) / BLOCK_COLUMNS) * columnBlocks;
      into[block * rowsPadded + firstRow + r] = blockScales[source + firstColumnBlock + block]!;
    }
  }
}
