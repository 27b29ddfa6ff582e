/**
 * Puts bytes of a checkpoint in the order that a weight has on the GPU.
 *
 * @module
 */
import { KernelError } from "../../../src/errors.ts";
import {
  BLOCK_COLUMNS,
  GRANULE_BYTES,
  granulesOfRow,
  WEIGHT_BYTES,
  type WeightShape,
} from "../weights/layout.ts";
import { granulePlace, type PlaceOf, runRows } from "../weights/weight_order.ts";

const GRANULE_WORDS = 4;

/** Packed rows, ready for one write at byte `firstRow * bytesPerRow` of the matrix. */
export interface PackedRun {
  /** The first of a run. */
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
  readonly #run: number;
  readonly #granules: number;
  readonly #place: PlaceOf;
  readonly #runWords: number;
  readonly #scratch: Uint32Array<ArrayBuffer>;
  readonly #scratchBytes: Uint8Array;
  #buffer: Uint32Array<ArrayBuffer>;
  /** Row of the matrix that the next run starts with. */
  #nextRow: number;
  /** Rows of an unfinished run, and the number of that run in the buffer. */
  #filled = 0;
  #filledRun = 0;

  /** @param shape `firstRow` is where the first row pushed goes: the first of a run. */
  constructor(shape: Omit<WeightShape, "rows"> & { readonly firstRow?: number }) {
    const { dtype, columns, firstRow = 0 } = shape;
    const run = runRows(shape);
    if (firstRow % run !== 0) {
      throw new KernelError("linear/row_packer", `row ${firstRow} is not a multiple of ${run}`);
    }
    this.#rowBytes = Math.ceil(columns * WEIGHT_BYTES[dtype]);
    this.#run = run;
    this.#granules = granulesOfRow(shape);
    this.#place = granulePlace(shape, this.#granules);
    this.#runWords = this.#granules * run * GRANULE_WORDS;
    this.#scratch = new Uint32Array(this.#granules * GRANULE_WORDS);
    this.#scratchBytes = new Uint8Array(this.#scratch.buffer);
    this.#buffer = new Uint32Array(this.#runWords);
    this.#nextRow = firstRow;
  }

  /**
   * Takes `rows` rows of bytes.
   *
   * @returns Every run that is complete by now, or undefined when there is none.
   */
  push(bytes: Uint8Array, rows: number): PackedRun | undefined {
    if (bytes.byteLength !== rows * this.#rowBytes) {
      throw new KernelError(
        "linear/row_packer",
        `${bytes.byteLength} bytes are not ${rows} rows of ${this.#rowBytes}`,
      );
    }
    this.#moveFilled();
    const total = this.#filled + rows;
    this.#reserve(Math.ceil(total / this.#run));
    const direct = this.#rowBytes % GRANULE_BYTES === 0 && bytes.byteOffset % 4 === 0;
    const words = direct
      ? new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4)
      : this.#scratch;
    for (let r = 0; r < rows; r++) {
      const start = r * this.#rowBytes;
      if (!direct) this.#scratchBytes.set(bytes.subarray(start, start + this.#rowBytes));
      this.#packRow(this.#filled + r, words, direct ? start / 4 : 0);
    }
    const runs = Math.floor(total / this.#run);
    this.#filled = total % this.#run;
    this.#filledRun = runs;
    return this.#take(runs);
  }

  /** Pads the unfinished run with zero rows and returns it, or undefined when there is none. */
  finish(): PackedRun | undefined {
    if (this.#filled === 0) return undefined;
    this.#moveFilled();
    this.#scratch.fill(0);
    for (let row = this.#filled; row < this.#run; row++) this.#packRow(row, this.#scratch, 0);
    this.#filled = 0;
    return this.#take(1);
  }

  #packRow(row: number, words: Uint32Array, start: number): void {
    const buffer = this.#buffer;
    const step = this.#run * GRANULE_WORDS;
    const used = Math.ceil(this.#rowBytes / GRANULE_BYTES) * GRANULE_WORDS;
    let to = this.#place(row, 0) * GRANULE_WORDS;
    for (let from = start; from < start + used; from += GRANULE_WORDS) {
      buffer[to] = words[from]!;
      buffer[to + 1] = words[from + 1]!;
      buffer[to + 2] = words[from + 2]!;
      buffer[to + 3] = words[from + 3]!;
      to += step;
    }
  }

  #moveFilled(): void {
    if (this.#filledRun === 0) return;
    const start = this.#filledRun * this.#runWords;
    if (this.#filled > 0) this.#buffer.copyWithin(0, start, start + this.#runWords);
    this.#filledRun = 0;
  }

  #reserve(runs: number): void {
    if (this.#buffer.length >= runs * this.#runWords) return;
    // The padding columns of every run are never written, so they stay zero.
    const larger = new Uint32Array(runs * this.#runWords);
    larger.set(this.#buffer.subarray(0, this.#runWords));
    this.#buffer = larger;
  }

  #take(runs: number): PackedRun | undefined {
    if (runs === 0) return undefined;
    const firstRow = this.#nextRow;
    this.#nextRow += runs * this.#run;
    return {
      firstRow,
      byteOffset: firstRow * this.#granules * GRANULE_BYTES,
      words: this.#buffer.subarray(0, runs * this.#runWords),
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
  /** The rows go to `firstRow` and on. */
  readonly into: Float32Array;
  /** Where scales lie in it. */
  readonly place: PlaceOf;
  readonly firstRow?: number;
}

/** Spreads the scales of 128x128 blocks to one for each row and 128 columns. */
export function spreadScales(options: SpreadScales): void {
  const { blockScales, columnBlocks, rows, into, place } = options;
  const { sourceRow = 0, firstRow = 0, firstColumnBlock = 0 } = options;
  const count = options.columnBlockCount ?? columnBlocks - firstColumnBlock;
  for (let block = 0; block < count; block++) {
    for (let r = 0; r < rows; r++) {
      const source = Math.floor((sourceRow + r) / BLOCK_COLUMNS) * columnBlocks;
      into[place(firstRow + r, block)] = blockScales[source + firstColumnBlock + block]!;
    }
  }
}
