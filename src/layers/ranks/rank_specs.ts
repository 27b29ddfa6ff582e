/**
 * The tensors of a checkpoint as one of several ranks wants them.
 *
 * Layers are made for the sizes that one rank has, and so are their specs. A spec's split says
 * which part of the checkpoint's tensor that is.
 *
 * @module
 */
import { BLOCK_COLUMNS } from "../../../kernels/linear/weights/layout.ts";
import type { WeightSlice, WeightSpec, WeightSplit } from "../../checkpoint/weight_spec.ts";
import type { RankOf } from "../../parallel/communicator.ts";
import type { MatrixEncoding, MatrixFormat } from "../weights/matrix_format.ts";

/** Of AutoAWQ's and GPTQ's words, in both dimensions. */
const CODES_PER_WORD = 8;

/** A spec of a rank's own sizes, as the checkpoint's sizes and the slice of them. */
export function specOnRank(spec: WeightSpec, group: RankOf): WeightSpec {
  const { split, shape, copies = 1 } = spec;
  const [rank, size] = [Math.floor(group.rank / copies), group.size / copies];
  // The tensors of an expert are all one rank's; stacked experts have said which they want.
  if (size === 1 || split === "none" || split === "experts") return spec;
  const [rows, columns] = shape as [number, number];
  const whole = (dimension: number) => shape.map((n, i) => (i === dimension ? n * size : n));
  if (split === "columns") {
    const slice: WeightSlice = {
      rowStart: 0,
      rows,
      columns: { start: rank * columns, count: columns },
    };
    return { ...spec, shape: whole(1), slice };
  }
  return { ...spec, shape: whole(0), slice: { rowStart: rank * rows, rows } };
}

/** The part of a matrix that one rank has. */
export interface MatrixShare {
  readonly rows: number;
  readonly columns: number;
  readonly split: WeightSplit;
  readonly format: Pick<MatrixFormat, "encoding">;
}

/** A spec of something that every rank has whole. */
export const wholeSpec = (spec: WeightSpec): WeightSpec => ({ ...spec, split: "none" });

/**
 * Why ranks cannot each have a part of a matrix: two of them would have to share scales. Undefined
 * where they can.
 */
export function cutProblem(
  { size }: Pick<RankOf, "size">,
  { rows, columns, split, format }: MatrixShare,
): string | undefined {
  if (size === 1 || split === "none" || split === "experts") return undefined;
  const unit = unitOf(format.encoding);
  const [dimension, count] = split === "columns" ? ["columns", columns] : ["rows", rows];
  if (unit === undefined || count % unit.count === 0) return undefined;
  return `${count} of its ${count * size} ${dimension} each would cut ${unit.name}`;
}

/** Rows, or columns, that only one rank can have together. */
function unitOf(
  encoding: MatrixEncoding,
): { readonly count: number; readonly name: string } | undefined {
  switch (encoding.kind) {
    case "plain":
      return undefined;
    case "scaled":
      if (encoding.scales.per !== "block") return undefined;
      return { count: BLOCK_COLUMNS, name: `a block of ${BLOCK_COLUMNS}x${BLOCK_COLUMNS}` };
    case "awq":
    case "gptq":
      return { count: CODES_PER_WORD, name: `a word of ${CODES_PER_WORD} codes` };
    default:
      return encoding satisfies never;
  }
}
