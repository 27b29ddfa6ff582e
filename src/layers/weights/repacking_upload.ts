/**
 * Puts the words of matrices in the order of their places on the GPU, on their way from a checkpoint:
 * the host copies bytes and nothing more.
 *
 * @module
 */

import {
  GRANULE_ROWS,
  mostRepackedRows,
  repackWeight,
  type StagedGranules,
  type StagedPacking,
} from "../../../kernels/linear/upload/repack_weight.ts";
import type { ColumnSlice } from "../../../kernels/linear/weights/column_scales.ts";
import {
  GRANULE_BYTES,
  granulesOfRow,
  WEIGHT_BYTES,
} from "../../../kernels/linear/weights/layout.ts";
import { runRows } from "../../../kernels/linear/weights/weight_order.ts";
import type { Destination } from "../../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../../errors.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { MatrixPlace } from "./matrix_place.ts";
import { type RowRun, type RowSlice, RowStream, stagedRows, streamRows } from "./staged_rows.ts";
import { STAGING_BYTES, type StagedUpload } from "./staged_upload.ts";

type Place = Pick<MatrixPlace, "shape" | "partRows" | "at">;
type Launch = (staged: StagedGranules) => void;

export class RepackingUpload {
  readonly #staged: StagedUpload;
  readonly #takesRows: boolean;
  readonly #launches = new Map<Tensor, Map<StagedPacking, Launch>>();

  /**
   * @param staged Whose owner destroys it, after the last chunk.
   * @param takesRows Whether matrices with an output a row come here too, which the host can do.
   */
  constructor(staged: StagedUpload, takesRows: boolean) {
    this.#staged = staged;
    this.#takesRows = takesRows;
  }

  /**
   * Whether matrices with an output a row come here. Else the host is to do it, as always when a run
   * of rows does not fit into the staging tensor.
   */
  takesRows({ shape }: Pick<Place, "shape">): boolean {
    return this.#takesRows && runRows(shape.layout) * rowBytesOf(shape) <= STAGING_BYTES;
  }

  /** Takes chunks of a matrix in the part's dtype, an output a row; of a place that `takesRows` names. */
  rows(place: Place, part: number, source: RowSlice): Destination {
    const { format, columns, parts, layout } = place.shape;
    const run = runRows(layout);
    const { sourceRow = 0, sourceColumn = 0, shape } = source;
    const rowBytes = rowBytesOf(place.shape);
    const granulesPerRow = granulesOfRow({ ...format, columns });
    const firstRow = place.partRows[part]!;
    const most = mostRepackedRows(granulesPerRow, run) * rowBytes;
    const newStream = () =>
      new RowStream({
        unit: run,
        rowBytes,
        stagingBytes: Math.min(STAGING_BYTES, most),
        send: (staged) =>
          this.#send(place, "rows", staged, {
            rowWords: rowBytes / 4,
            rows: staged.rowCount,
            runRows: run,
            granulesPerRow,
            firstRow: firstRow + staged.firstRow,
          }),
      });
    const slice = { columns, sourceColumn, sourceColumns: shape?.[1] ?? columns };
    const wanted = { first: sourceRow, end: sourceRow + parts[part]! };
    return streamRows(newStream, wanted, (chunk, first, end) =>
      stagedRows(chunk, { ...slice, first, end }),
    );
  }

  /**
   * Takes chunks of `qweight` of AWQ and GPTQ.
   *
   * @throws {UnsupportedError} when the rows of a granule do not fit into the staging tensor.
   */
  columns(
    place: Place,
    part: number,
    { name, ...slice }: ColumnSlice & { readonly name: string },
  ): Destination {
    const { packing, sourceRows, sourceColumns, sourceRow = 0, sourceColumn = 0 } = slice;
    const { rows = sourceRows - sourceRow, columns = sourceColumns - sourceColumn } = slice;
    const [rowColumns, rowWords] = packing === "awq" ? [1, sourceRows / 8] : [8, sourceRows];
    const granuleRows = GRANULE_ROWS[packing];
    if (granuleRows * rowWords * 4 > STAGING_BYTES) {
      throw new UnsupportedError(`${name} in ${packing}`, `it has ${sourceRows} outputs`);
    }
    const firstRow = place.partRows[part]!;
    const granulesPerRow = granulesOfRow({ dtype: "int4", columns: place.shape.columns });
    const newStream = () =>
      new RowStream({
        unit: granuleRows,
        rowBytes: rowWords * 4,
        stagingBytes: STAGING_BYTES,
        send: (run) =>
          this.#send(place, packing, run, {
            rowWords,
            rows,
            granulesPerRow,
            firstRow,
            sourceRow,
            runRows: runRows(place.shape.layout),
            granules: run.rowCount / granuleRows,
            firstGranule: run.firstRow / granuleRows,
          }),
      });
    const first = sourceColumn / rowColumns;
    const wanted = { first, end: first + columns / rowColumns };
    return streamRows(newStream, wanted, ({ bytes, rowStart }, from, end) =>
      bytes.subarray((from - rowStart) * rowWords * 4, (end - rowStart) * rowWords * 4),
    );
  }

  #send(
    { at: { words, wordsOffset } }: Place,
    packing: StagedPacking,
    { pieces }: RowRun,
    staged: StagedGranules,
  ): Promise<void> {
    const launch = this.#launch(words, packing);
    return this.#staged.send(pieces, () => launch({ ...staged, wordsOffset }));
  }

  #launch(words: Tensor, packing: StagedPacking): Launch {
    const ofWords = this.#launches.get(words) ?? new Map<StagedPacking, Launch>();
    this.#launches.set(words, ofWords);
    const { recorder, staging } = this.#staged.workspace;
    const launch = ofWords.get(packing) ?? repackWeight(recorder, { packing, staging, words });
    ofWords.set(packing, launch);
    return launch;
  }
}

/** Bytes of a row in the staging tensor. */
function rowBytesOf({ format, columns }: Place["shape"]): number {
  return Math.ceil((columns * WEIGHT_BYTES[format.dtype]) / GRANULE_BYTES) * GRANULE_BYTES;
}
