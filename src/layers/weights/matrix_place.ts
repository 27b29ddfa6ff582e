/**
 * Where matrices of a checkpoint lie on the GPU.
 *
 * A place may hold several matrices one below the other (a fused projection, the gate and up halves
 * of an MLP); each starts with a run of rows (weight_order.ts), and rows between two of them are zero.
 *
 * @module
 */

import type { LinearLayout, LinearWeight } from "../../../kernels/linear/linear_layout.ts";
import type { PackedRun } from "../../../kernels/linear/upload/row_packer.ts";
import { scaleWords, weightBytes } from "../../../kernels/linear/weights/layout.ts";
import {
  orderOf,
  type PlaceOf,
  paddedRows,
  scalePlace,
} from "../../../kernels/linear/weights/weight_order.ts";
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { MatrixFormat } from "./matrix_format.ts";

export interface MatrixShape {
  readonly format: MatrixFormat;
  readonly columns: number;
  /** Rows of each matrix in the place. */
  readonly parts: readonly number[];
  readonly layout: LinearLayout;
  /** Whether a bias for each row comes with the matrices. */
  readonly bias?: boolean;
}

/** The tensors a place is in, and its first bytes there. */
export interface MatrixTensors {
  readonly words: Tensor;
  readonly wordsOffset?: number;
  readonly scales?: Tensor | undefined;
  readonly scalesOffset?: number;
  readonly bias?: Tensor | undefined;
  readonly biasOffset?: number;
}

/** Fused matrices at one place of a words tensor and, where there are any, of scales and biases. */
export class MatrixPlace {
  readonly shape: MatrixShape;
  /** First row of each part. */
  readonly partRows: readonly number[];
  readonly rowsPadded: number;
  /** Runs of columns with a scale word of their own. */
  readonly scaleGroups: number;
  /** Index of the scale word of a row of the place and a group. */
  readonly scalePlace: PlaceOf;
  readonly at: Required<MatrixTensors>;
  readonly #memory: DeviceMemory;
  /** Scale words on the host, until every part has delivered its own. */
  #scales: Uint32Array<ArrayBuffer> | undefined;
  #scaleParts = 0;

  constructor(memory: DeviceMemory, shape: MatrixShape, at: MatrixTensors) {
    const { format, columns } = shape;
    this.shape = shape;
    this.partRows = partRows(shape);
    this.rowsPadded = totalRows(shape);
    this.scaleGroups = scaleWords({ ...format, columns });
    this.scalePlace = scalePlace(shape.layout, {
      rowsPadded: this.rowsPadded,
      groups: this.scaleGroups,
    });
    this.#memory = memory;
    this.at = {
      scales: undefined,
      bias: undefined,
      wordsOffset: 0,
      scalesOffset: 0,
      biasOffset: 0,
      ...at,
    };
  }

  /** @param run Byte 0 is the place's first. */
  writeRun(run: Pick<PackedRun, "byteOffset" | "words"> | undefined): void {
    if (run === undefined) return;
    this.#memory.write(this.at.words, this.at.wordsOffset + run.byteOffset, run.words);
  }

  /**
   * One part's scale words. All go to the GPU together, once every part has given its own.
   *
   * @param fill Writes the words of the part's rows where `scalePlace` says.
   */
  writeScales(fill: (words: Uint32Array<ArrayBuffer>) => void): void {
    this.#scales ??= new Uint32Array(this.scaleGroups * this.rowsPadded);
    fill(this.#scales);
    this.#scaleParts += 1;
    if (this.#scaleParts < this.shape.parts.length) return;
    this.#memory.write(this.at.scales!, this.at.scalesOffset, this.#scales);
    this.#scales = undefined;
    this.#scaleParts = 0;
  }

  writeBias(part: number, values: Float32Array<ArrayBuffer>): void {
    this.#memory.write(this.at.bias!, this.at.biasOffset + this.partRows[part]! * 4, values);
  }
}

function partRows({ parts, layout }: Pick<MatrixShape, "parts" | "layout">): number[] {
  let next = 0;
  return parts.map((rows) => {
    const first = next;
    next += paddedRows(rows, layout);
    return first;
  });
}

function totalRows({ parts, layout }: MatrixShape): number {
  return parts.reduce((sum, rows) => sum + paddedRows(rows, layout), 0);
}

/** First output column of each of several matrices that one fused linear holds, and their sum. */
export function fusedColumns(parts: readonly number[], layout: LinearLayout) {
  return {
    first: partRows({ parts, layout }),
    width: parts.reduce((sum, rows) => sum + paddedRows(rows, layout), 0),
  };
}

/** GPU bytes of the matrices of one place. */
export function placeBytes(shape: MatrixShape): {
  readonly words: number;
  readonly scales: number;
  readonly bias: number;
} {
  const { format, columns, layout, bias } = shape;
  const { dtype, groupColumns } = format;
  const rows = totalRows(shape);
  const form = { ...orderOf(layout), dtype, columns, rows };
  return {
    ...weightBytes(groupColumns === undefined ? form : { ...form, groupColumns }),
    bias: bias ? rows * 4 : 0,
  };
}

/** A fused weight in tensors of its own, for the linear kernels. */
export function allocateMatrix(
  memory: DeviceMemory,
  label: string,
  shape: MatrixShape,
): { readonly place: MatrixPlace; readonly weight: LinearWeight } {
  const bytes = placeBytes(shape);
  const allocate = (size: number, what: string) =>
    size === 0 ? undefined : memory.allocate("weights", size, `${label}${what}`);
  const words = memory.allocate("weights", bytes.words, label);
  const scales = allocate(bytes.scales, " scales");
  const bias = allocate(bytes.bias, " bias");
  const place = new MatrixPlace(memory, shape, { words, scales, bias });
  const { format, columns, layout } = shape;
  const { dtype, groupColumns } = format;
  return {
    place,
    weight: {
      ...layout,
      dtype,
      rows: place.partRows.at(-1)! + shape.parts.at(-1)!,
      columns,
      rowsPadded: place.rowsPadded,
      words,
      ...(groupColumns !== undefined && { groupColumns }),
      ...(scales !== undefined && { scales }),
      ...(bias !== undefined && { bias }),
    },
  };
}
