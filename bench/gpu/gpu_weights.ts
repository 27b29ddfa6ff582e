/**
 * Weight matrices of any size that the GPU fills, with any of their rows as numbers on the host.
 *
 * @module
 */
import { unpackWeight } from "../../kernels/linear/checks/check_weights.ts";
import type { LinearLayout, LinearWeight } from "../../kernels/linear/linear_layout.ts";
import {
  granulesOfRow,
  scaleWords,
  type WeightDtype,
} from "../../kernels/linear/weights/layout.ts";
import {
  orderOf,
  paddedRows,
  runRows,
  scalePlace,
  type WeightOrder,
} from "../../kernels/linear/weights/weight_order.ts";
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
  readonly #order: WeightOrder;
  readonly #words: MatrixWords;
  readonly #runs = new Map<number, Float64Array>();

  constructor(size: MatrixSize, order: WeightOrder, words: MatrixWords) {
    this.#size = size;
    this.#order = orderOf(order);
    this.#words = words;
  }

  /** The product of row `row` with as many numbers as there are columns. */
  dot(row: number, x: ArrayLike<number>): number {
    const { columns } = this.#size;
    const runOf = runRows(this.#order);
    const run = this.#run(Math.floor(row / runOf));
    const first = (row % runOf) * columns;
    let sum = 0;
    for (let k = 0; k < columns; k++) sum += run[first + k]! * x[k]!;
    return sum;
  }

  /** `[rows of a run, columns]` */
  #run(index: number): Float64Array {
    const known = this.#runs.get(index);
    if (known !== undefined) return known;
    const { dtype, rows, columns } = this.#size;
    const order = this.#order;
    const run = runRows(order);
    const runWords = 4 * run * granulesOfRow({ dtype, columns });
    const words = Uint32Array.from({ length: runWords }, (_, i) =>
      this.#words.word(index * runWords + i),
    );
    const groups = scaleWords({ dtype, columns });
    const rowsPadded = paddedRows(rows, order);
    const [ofRun, ofAll] = [run, rowsPadded].map((padded) =>
      scalePlace(order, { rowsPadded: padded, groups }),
    );
    const scales = new Uint32Array(run * groups);
    for (let i = 0; i < scales.length; i++) {
      const [r, group] = [i % run, Math.floor(i / run)];
      scales[ofRun!(r, group)] = this.#words.scale(ofAll!(index * run + r, group));
    }
    const made = unpackWeight({ ...order, dtype, rows: run, columns }, { words, scales });
    this.#runs.set(index, made);
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
  const { dtype, rows } = size;
  const rowsPadded = paddedRows(rows, layout);
  const wordCount = 4 * rowsPadded * granulesOfRow(size);
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
  const values = new MatrixRows(size, layout, {
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
