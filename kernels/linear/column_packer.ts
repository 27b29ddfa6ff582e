/**
 * Four-bit codes as AutoAWQ and GPTQ files hold them, laid out for the linear kernels.
 *
 * Both files run over the inputs first: a file row of AWQ is one input, eight outputs to a word in
 * the order of `AWQ_OUTPUTS`; a file row of GPTQ is eight inputs, one output to a word. Our words
 * are eight inputs of one output. So GPTQ's words only move, and AWQ's are transposed eight by
 * eight: nibble i of word j becomes nibble j of word i.
 *
 * Inputs come in order, and a granule of ours is 32 of them: what one call brings makes one run of
 * granules for each group of `lanes` outputs.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
import { AWQ_OUTPUTS, moveWords, transposeWords, type Words } from "./column_words.ts";
import { BLOCK_COLUMNS, type PackedRun } from "./layout.ts";

export type ColumnPacking = "awq" | "gptq";

const GRANULE_WORDS = 4;
const GRANULE_COLUMNS = 32;
/** Inputs of a word of ours. */
const WORD_COLUMNS = 8;
/** Words of a cache line: outputs of AWQ that are transposed while their lines are at hand. */
const LINE_WORDS = 16;

/** A packed matrix of a checkpoint, and the slice of it that is meant. */
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
  /** Where the first output goes: a multiple of `lanes`. Default 0. */
  readonly firstRow?: number;
}

/** Words ready for one write at a byte of the matrix; overwritten by the packer's next call. */
export type ColumnRun = Pick<PackedRun, "byteOffset" | "words">;

/** Turns file rows of `qweight`, in pieces of any number of them, into runs of granules. */
export class ColumnPacker {
  readonly #packing: ColumnPacking;
  readonly #lanes: number;
  readonly #rows: number;
  readonly #sourceRow: number;
  readonly #firstGroup: number;
  readonly #granulesPerRow: number;
  /** Words of a file row. */
  readonly #rowWords: number;
  /** File rows of a granule. */
  readonly #granuleRows: number;
  /** File rows that are meant. */
  readonly #start: number;
  readonly #stop: number;
  /** First word of a file row that is meant, and the one after the last. */
  readonly #firstWord: number;
  readonly #endWord: number;
  /** Where the first granule of each output goes, in the order of a file row's outputs. */
  readonly #offsets: Int32Array;
  /** File rows that came. */
  #next = 0;
  /** Granules of a row that were given away. */
  #granule = 0;
  /** File rows of an unfinished granule. */
  readonly #held: Words;
  #heldRows = 0;
  #buffer: Words = new Int32Array(0);

  constructor(options: ColumnSlice & { readonly lanes: number }) {
    const { packing, lanes, sourceRows, sourceColumns, firstRow = 0 } = options;
    const { sourceRow = 0, sourceColumn = 0 } = options;
    const { rows = sourceRows - sourceRow, columns = sourceColumns - sourceColumn } = options;
    if (firstRow % lanes !== 0) refuse(`row ${firstRow} is not a multiple of ${lanes}`);
    if (sourceColumn % GRANULE_COLUMNS !== 0) {
      refuse(`column ${sourceColumn} is not a multiple of ${GRANULE_COLUMNS}`);
    }
    if (packing === "awq" ? sourceRows % 8 !== 0 : sourceColumns % WORD_COLUMNS !== 0) {
      refuse(`words of ${packing} cannot hold ${sourceRows}x${sourceColumns} codes`);
    }
    if (sourceRow + rows > sourceRows || sourceColumn + columns > sourceColumns) {
      refuse(`the slice does not lie in ${sourceRows}x${sourceColumns}`);
    }
    const [rowColumns, wordRows] = packing === "awq" ? [1, 8] : [WORD_COLUMNS, 1];
    this.#packing = packing;
    this.#lanes = lanes;
    this.#rows = rows;
    this.#sourceRow = sourceRow;
    this.#firstGroup = firstRow / lanes;
    this.#granulesPerRow = Math.ceil(columns / BLOCK_COLUMNS) * (BLOCK_COLUMNS / GRANULE_COLUMNS);
    this.#rowWords = sourceRows / wordRows;
    this.#granuleRows = GRANULE_COLUMNS / rowColumns;
    this.#start = sourceColumn / rowColumns;
    this.#stop = Math.ceil((sourceColumn + columns) / rowColumns);
    this.#firstWord = Math.floor(sourceRow / wordRows);
    this.#endWord = Math.ceil((sourceRow + rows) / wordRows);
    this.#offsets = new Int32Array((this.#endWord - this.#firstWord) * wordRows);
    this.#held = new Int32Array(this.#granuleRows * this.#rowWords);
  }

  /**
   * Takes whole file rows, which come in order.
   *
   * @returns Every granule that is complete by now. With the last file row, the padding as well.
   */
  push(bytes: Uint8Array<ArrayBuffer>): readonly ColumnRun[] {
    const fileRows = bytes.length / (this.#rowWords * 4);
    if (!Number.isInteger(fileRows)) {
      refuse(`${bytes.length} bytes are not whole rows of ${this.#rowWords} words`);
    }
    let at = Math.max(this.#start - this.#next, 0);
    const end = Math.min(this.#stop - this.#next, fileRows);
    const last = end === this.#stop - this.#next;
    this.#next += fileRows;
    if (at >= end) return [];

    const granules = last
      ? this.#granulesPerRow - this.#granule
      : Math.floor((this.#heldRows + end - at) / this.#granuleRows);
    const words = wordsOf(bytes);
    this.#place(granules);
    let granule = 0;
    if (this.#heldRows > 0) {
      at = this.#hold(words, at, Math.min(end, at + this.#granuleRows - this.#heldRows));
      if (this.#heldRows === this.#granuleRows) {
        this.#pack(this.#held, 0, granule++);
        this.#heldRows = 0;
      }
    }
    for (; end - at >= this.#granuleRows; at += this.#granuleRows) {
      this.#pack(words, at * this.#rowWords, granule++);
    }
    this.#hold(words, at, end);
    if (last && this.#heldRows > 0) {
      this.#held.fill(0, this.#heldRows * this.#rowWords);
      this.#pack(this.#held, 0, granule);
    }
    return this.#runs(granules);
  }

  /** Keeps file rows `[from, to)` for the next granule; returns `to`. */
  #hold(words: Words, from: number, to: number): number {
    if (to <= from) return from;
    const rows = words.subarray(from * this.#rowWords, to * this.#rowWords);
    this.#held.set(rows, this.#heldRows * this.#rowWords);
    this.#heldRows += to - from;
    return to;
  }

  /** Makes room for a run of granules: `[groups, granules, lanes]`, zeros. */
  #place(granules: number): void {
    const lanes = this.#lanes;
    const runWords = granules * lanes * GRANULE_WORDS;
    const groups = Math.ceil(this.#rows / lanes);
    // One group more takes the outputs next to the slice that share words with it.
    const length = (groups + 1) * runWords;
    if (this.#buffer.length < length) this.#buffer = new Int32Array(length);
    else this.#buffer.fill(0, 0, length);
    const awq = this.#packing === "awq";
    const first = this.#firstWord * (awq ? 8 : 1) - this.#sourceRow;
    for (let i = 0; i < this.#offsets.length; i++) {
      const row = first + (awq ? (i & ~7) + AWQ_OUTPUTS[i & 7]! : i);
      const wanted = row >= 0 && row < this.#rows;
      const group = wanted ? Math.floor(row / lanes) : groups;
      this.#offsets[i] = group * runWords + (wanted ? (row % lanes) * GRANULE_WORDS : 0);
    }
  }

  #pack(source: Words, start: number, granule: number): void {
    const to = granule * this.#lanes * GRANULE_WORDS;
    const words = this.#endWord - this.#firstWord;
    const first = start + this.#firstWord;
    const { length } = this.#offsets;
    if (this.#packing === "gptq") {
      moveWords(source, first, this.#rowWords, this.#buffer, to, this.#offsets);
      return;
    }
    for (let line = 0; line < words; line += LINE_WORDS) {
      const offsets = this.#offsets.subarray(line * 8, Math.min(length, (line + LINE_WORDS) * 8));
      for (let word = 0; word < GRANULE_WORDS; word++) {
        const from = first + word * WORD_COLUMNS * this.#rowWords + line;
        transposeWords(source, from, this.#rowWords, this.#buffer, to + word, offsets);
      }
    }
  }

  #runs(granules: number): ColumnRun[] {
    const granuleBytes = this.#lanes * GRANULE_WORDS * 4;
    const groupBytes = this.#granulesPerRow * granuleBytes;
    const start = this.#firstGroup * groupBytes + this.#granule * granuleBytes;
    const groups = Math.ceil(this.#rows / this.#lanes);
    this.#granule += granules;
    if (granules === 0) return [];
    const runWords = (granules * granuleBytes) / 4;
    const words = new Uint32Array(this.#buffer.buffer, 0, groups * runWords);
    // Whole rows of neighbouring groups lie one behind the other.
    if (granules === this.#granulesPerRow) return [{ byteOffset: start, words }];
    return Array.from({ length: groups }, (_, group) => ({
      byteOffset: start + group * groupBytes,
      words: words.subarray(group * runWords, (group + 1) * runWords),
    }));
  }
}

/** The same bytes as words; copied where they are not aligned. */
function wordsOf(bytes: Uint8Array<ArrayBuffer>): Words {
  const aligned = bytes.byteOffset % 4 === 0 ? bytes : bytes.slice();
  return new Int32Array(aligned.buffer, aligned.byteOffset, aligned.length / 4);
}

function refuse(problem: string): never {
  throw new KernelError("linear/column_packer", problem);
}
