/**
 * Tensors cut in pieces of bounded size, and the bytes of a piece.
 *
 * @module
 */
import type { Dtype } from "../dtype.ts";
import { CheckpointError } from "../errors.ts";
import type { TensorEntry, WeightSource } from "./source.ts";
import type { WeightSpec } from "./weight_spec.ts";

/** One tensor, or a slice of it, on its way to its destination. */
export interface Transfer {
  readonly spec: WeightSpec;
  readonly tensor: TensorEntry;
  readonly dtype: Dtype;
}

/** Rows `[rowStart, rowStart + rows)` of a transfer. Only a tensor without bytes has none. */
export interface Piece extends Transfer {
  readonly rowStart: number;
  readonly rows: number;
  /** Of the first row's bytes, from the start of the file. */
  readonly offset: number;
  /** From one row to the next in the file; all of them are wanted unless `rowBytes` is less. */
  readonly stride: number;
  /** Bytes of a row that are wanted. */
  readonly rowBytes: number;
  readonly last: boolean;
}

/** Slices of rows that are read at once: as many as a file system takes without being flooded. */
const READS_AT_ONCE = 64;

/** What a transfer wants of its tensor, in bytes of the file. */
function wantedRows({ tensor, spec }: Transfer) {
  const { byteLength, shape } = tensor;
  // A scalar is one row; a tensor without bytes has no rows worth writing.
  const all = byteLength === 0 ? 0 : (shape[0] ?? 1);
  const stride = all === 0 ? 0 : byteLength / all;
  const { rowStart, rows, columns } = spec.slice ?? { rowStart: 0, rows: all };
  const offset = tensor.offset + rowStart * stride;
  if (columns === undefined) return { rows, stride, offset, rowBytes: stride };
  const each = stride / shape[1]!;
  return { rows, stride, offset: offset + columns.start * each, rowBytes: columns.count * each };
}

/** Bytes that a transfer brings. */
export function transferBytes(transfer: Transfer): number {
  const { rows, rowBytes } = wantedRows(transfer);
  return rows * rowBytes;
}

/** Whole rows of at most `chunkBytes`, or one row when a row is longer. */
export function* cut(transfers: readonly Transfer[], chunkBytes: number): Generator<Piece, void> {
  for (const transfer of transfers) {
    const { rows: rowCount, stride, offset, rowBytes } = wantedRows(transfer);
    const rowsPerChunk = Math.max(1, Math.floor(chunkBytes / rowBytes));
    let rowStart = 0;
    do {
      const rows = Math.min(rowsPerChunk, rowCount - rowStart);
      yield {
        ...transfer,
        rowStart,
        rows,
        stride,
        rowBytes,
        offset: offset + rowStart * stride,
        last: rowStart + rows === rowCount,
      };
      rowStart += rows;
    } while (rowStart < rowCount);
  }
}

/** The bytes of a piece, row after row. */
export async function readPiece(
  source: WeightSource,
  piece: Piece,
): Promise<Uint8Array<ArrayBuffer>> {
  const { offset, rows, rowBytes, stride } = piece;
  if (rows * rowBytes === 0) return new Uint8Array(0);
  if (rowBytes === stride) return read(source, piece, offset, rows * rowBytes);
  const bytes = new Uint8Array(rows * rowBytes);
  for (let first = 0; first < rows; first += READS_AT_ONCE) {
    const count = Math.min(READS_AT_ONCE, rows - first);
    const reads = Array.from({ length: count }, async (_, i) => {
      const row = first + i;
      bytes.set(await read(source, piece, offset + row * stride, rowBytes), row * rowBytes);
    });
    await Promise.all(reads);
  }
  return bytes;
}

async function read(
  source: WeightSource,
  { spec, tensor }: Piece,
  offset: number,
  byteLength: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = await source.read(tensor.file, offset, byteLength);
  if (bytes.length === byteLength) return bytes;
  const held = `${source.name} gave ${bytes.length} bytes instead of ${byteLength}`;
  throw new CheckpointError(tensor.file, held, spec.name);
}
