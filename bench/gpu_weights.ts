/**
 * Weight matrices of any size that the GPU fills, with any of their rows as numbers on the host.
 *
 * @module
 */
import { unpackWeight } from "../kernels/linear/check_weights.ts";
import {
  BLOCK_COLUMNS,
  type LinearLayout,
  type LinearWeight,
  paddedRows,
  scaleWords,
  WEIGHT_BYTES,
  type WeightDtype,
} from "../kernels/linear/layout.ts";
import { type Fill, type MadeTensor, makeTensor, WORDS, type WordKind } from "./gpu_data.ts";

/** Those that whole models are kept in. */
export type BenchedDtype = Extract<WeightDtype, "bf16" | "fp8" | "int8" | "int4">;

const KINDS: Readonly<Record<BenchedDtype, { words: WordKind; scales?: WordKind }>> = {
  bf16: { words: WORDS.bf16 },
  fp8: { words: WORDS.fp8, scales: WORDS.scale },
  int8: { words: WORDS.any, scales: WORDS.scale },
  int4: { words: WORDS.any, scales: WORDS.int4Scale },
};

export const wordFill = (dtype: BenchedDtype): Fill => ({ kind: KINDS[dtype].words });
export const scaleFill = (dtype: BenchedDtype): Fill => ({ kind: KINDS[dtype].scales! });

export interface MatrixSize {
  readonly dtype: BenchedDtype;
  /** Outputs. */
  readonly rows: number;
  /** Inputs. */
  readonly columns: number;
}

/** Words and scales of a matrix among others of its size, by the place in it. */
export interface MatrixWords {
  word(index: number): number;
  scale(index: number): number;
}

/** Rows of a matrix as numbers; those that lie side by side are made together. */
export class MatrixRows {
  readonly #size: MatrixSize;
  readonly #lanes: number;
  readonly #words: MatrixWords;
  readonly #groups = new Map<number, Float64Array>();

  constructor(size: MatrixSize, lanes: number, words: MatrixWords) {
    this.#size = size;
    this.#lanes = lanes;
    this.#words = words;
  }

  /** The product of row `row` with as many numbers as there are columns. */
  dot(row: number, x: ArrayLike<number>): number {
    const { columns } = this.#size;
    const group = this.#group(Math.floor(row / this.#lanes));
    const first = (row % this.#lanes) * columns;
    let sum = 0;
    for (let k = 0; k < columns; k++) sum += group[first + k]! * x[k]!;
    return sum;
  }

  /** `[lanes, columns]` */
  #group(index: number): Float64Array {
    const known = this.#groups.get(index);
    if (known !== undefined) return known;
    const { dtype, rows, columns } = this.#size;
    const lanes = this.#lanes;
    const blocks = Math.ceil(columns / BLOCK_COLUMNS);
    const groupWords = (lanes * blocks * BLOCK_COLUMNS * WEIGHT_BYTES[dtype]) / 4;
    const padded = paddedRows(rows, lanes);
    const words = Uint32Array.from({ length: groupWords }, (_, i) =>
      this.#words.word(index * groupWords + i),
    );
    const scales = Uint32Array.from({ length: lanes * scaleWords({ dtype, columns }) }, (_, i) =>
      this.#words.scale(Math.floor(i / lanes) * padded + index * lanes + (i % lanes)),
    );
    const made = unpackWeight({ dtype, rows: lanes, columns, lanes }, { words, scales });
    this.#groups.set(index, made);
    return made;
  }
}

export interface MadeWeight {
  readonly weight: LinearWeight;
  readonly rows: MatrixRows;
  destroy(): void;
}

/** A matrix of its own. */
export async function makeWeight(size: MatrixSize, layout: LinearLayout): Promise<MadeWeight> {
  const { dtype, rows, columns } = size;
  const { lanes } = layout;
  const rowsPadded = paddedRows(rows, lanes);
  const blocks = Math.ceil(columns / BLOCK_COLUMNS);
  const wordCount = (rowsPadded * blocks * BLOCK_COLUMNS * WEIGHT_BYTES[dtype]) / 4;
  const words = await makeTensor(`${dtype} weights`, wordCount, wordFill(dtype));
  const scaleCount = rowsPadded * scaleWords(size);
  const scales: MadeTensor | undefined =
    scaleCount === 0
      ? undefined
      : await makeTensor(`${dtype} scales`, scaleCount, scaleFill(dtype));
  const weight = {
    ...{ ...layout, ...size, rowsPadded, words: words.tensor },
    ...(scales && { scales: scales.tensor }),
  };
  const values = new MatrixRows(size, lanes, {
    word: words.word,
    scale: (index) => scales?.word(index) ?? 0,
  });
  return {
    weight,
    rows: values,
    destroy() {
      words.tensor.buffer.destroy();
      scales?.tensor.buffer.destroy();
    },
  };
}
