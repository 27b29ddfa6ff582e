/**
 * Rows of matrices that the host puts in the order of their place.
 *
 * @module
 */
import { RowPacker } from "../../../kernels/linear/upload/row_packer.ts";
import { orderOf } from "../../../kernels/linear/weights/weight_order.ts";
import type { Destination, WeightChunk } from "../../checkpoint/weight_spec.ts";
import type { MatrixPlace } from "./matrix_place.ts";
import type { RowSlice } from "./staged_rows.ts";

/** Takes chunks of a matrix in the part's dtype, whose granules the host puts in order. */
export function packRows(place: MatrixPlace, part: number, source: RowSlice): Destination {
  const { format, columns, parts, layout } = place.shape;
  const { dtype } = format;
  const { sourceRow = 0 } = source;
  const rows = parts[part]!;
  const newPacker = () =>
    new RowPacker({ ...orderOf(layout), dtype, columns, firstRow: place.partRows[part]! });
  // Made when bytes come: a large model has tens of thousands of destinations.
  let packer: RowPacker | undefined;
  return {
    write: (chunk) => {
      if (packer === undefined || chunk.rowStart === 0) packer = newPacker();
      const first = Math.max(chunk.rowStart, sourceRow);
      const end = Math.min(chunk.rowStart + chunk.rows, sourceRow + rows);
      if (first >= end) return;
      place.writeRun(packer.push(pickRows(chunk, first, end, columns, source), end - first));
    },
    finish: () => {
      place.writeRun(packer?.finish());
      packer = undefined;
    },
  };
}

/** Rows `[first, end)` of a chunk, and of each row `columns` elements from the source's column on. */
function pickRows(
  { bytes, rows, rowStart }: WeightChunk,
  first: number,
  end: number,
  columns: number,
  { shape, sourceColumn = 0 }: RowSlice,
): Uint8Array {
  const rowBytes = bytes.length / rows;
  const whole = bytes.subarray((first - rowStart) * rowBytes, (end - rowStart) * rowBytes);
  const sourceColumns = shape?.[1] ?? columns;
  if (sourceColumns === columns) return whole;
  const element = rowBytes / sourceColumns;
  const picked = new Uint8Array((end - first) * columns * element);
  for (let r = 0; r < end - first; r++) {
    const start = r * rowBytes + sourceColumn * element;
    picked.set(whole.subarray(start, start + columns * element), r * columns * element);
  }
  return picked;
}
