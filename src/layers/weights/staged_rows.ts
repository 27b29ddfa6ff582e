/**
 * Whole rows of a checkpoint's matrix on their way into a staging tensor of fixed size.
 *
 * @module
 */
import type { Destination, WeightChunk } from "../../checkpoint/weight_spec.ts";

/** The rows and columns of a checkpoint's matrix that are meant for a part of a place. */
export interface RowSlice {
  /** First row: those of the part are meant. Default 0. */
  readonly sourceRow?: number;
  /** First column: those of the part are meant. Default 0. */
  readonly sourceColumn?: number;
  /** Of the matrix in the checkpoint, when that is not the part's. */
  readonly shape?: readonly [rows: number, columns: number];
}

/** Rows to stage together. */
export interface RowRun {
  /** Counted from the first row of the part. */
  readonly firstRow: number;
  readonly rowCount: number;
  readonly pieces: readonly Uint8Array<ArrayBuffer>[];
}

/** Cuts a stream of staged rows into runs of whole groups of `unit`; the last may be shorter. */
export class RowStream {
  readonly #unit: number;
  readonly #rowBytes: number;
  readonly #capacity: number;
  readonly #send: (run: RowRun) => Promise<void>;
  #nextRow = 0;
  /** Less than a group. */
  #held = new Uint8Array(0);

  constructor(options: {
    readonly unit: number;
    readonly rowBytes: number;
    /** Of the staging tensor; at least `unit` rows. */
    readonly stagingBytes: number;
    readonly send: (run: RowRun) => Promise<void>;
  }) {
    const { unit, rowBytes, stagingBytes, send } = options;
    this.#unit = unit;
    this.#rowBytes = rowBytes;
    this.#capacity = Math.floor(stagingBytes / rowBytes / unit) * unit;
    this.#send = send;
  }

  async push(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    const rows = bytes.length / this.#rowBytes;
    let taken = 0;
    let held = this.#held.length / this.#rowBytes;
    while (held + rows - taken >= this.#unit) {
      const most = Math.min(held + rows - taken, this.#capacity);
      const rowCount = most - (most % this.#unit);
      const end = taken + rowCount - held;
      const fresh = bytes.subarray(taken * this.#rowBytes, end * this.#rowBytes);
      await this.#sendRun(rowCount, [this.#held, fresh]);
      this.#held = new Uint8Array(0);
      held = 0;
      taken = end;
    }
    // A copy, so that the rest of the chunk can go.
    const rest = bytes.subarray(taken * this.#rowBytes);
    const joined = new Uint8Array(this.#held.length + rest.length);
    joined.set(this.#held);
    joined.set(rest, this.#held.length);
    this.#held = joined;
  }

  async finish(): Promise<void> {
    if (this.#held.length > 0) {
      await this.#sendRun(this.#held.length / this.#rowBytes, [this.#held]);
    }
  }

  async #sendRun(rowCount: number, pieces: readonly Uint8Array<ArrayBuffer>[]): Promise<void> {
    await this.#send({ firstRow: this.#nextRow, rowCount, pieces });
    this.#nextRow += rowCount;
  }
}

export interface StagedSlice {
  readonly first: number;
  readonly end: number;
  /** Columns `[sourceColumn, sourceColumn + columns)` of `sourceColumns`. */
  readonly columns: number;
  readonly sourceColumn: number;
  readonly sourceColumns: number;
}

/** Rows `[first, end)` of a chunk, the wanted columns of each, whole runs of 16 bytes apart. */
export function stagedRows(
  { bytes, rows, rowStart }: WeightChunk,
  wanted: StagedSlice,
): Uint8Array<ArrayBuffer> {
  const { first, end, columns, sourceColumn, sourceColumns } = wanted;
  const rowBytes = bytes.length / rows;
  const element = rowBytes / sourceColumns;
  const stride = Math.ceil((columns * element) / 16) * 16;
  const whole = bytes.subarray((first - rowStart) * rowBytes, (end - rowStart) * rowBytes);
  if (rowBytes === stride && columns === sourceColumns) return whole;
  const staged = new Uint8Array((end - first) * stride);
  for (let r = 0; r < end - first; r++) {
    const start = r * rowBytes + sourceColumn * element;
    staged.set(whole.subarray(start, start + columns * element), r * stride);
  }
  return staged;
}

/** Passes the wanted rows of each chunk on to a stream, as `pick` stages them. */
export function streamRows(
  newStream: (chunk: WeightChunk) => RowStream,
  wanted: { readonly first: number; readonly end: number },
  pick: (chunk: WeightChunk, first: number, end: number) => Uint8Array<ArrayBuffer>,
): Destination {
  // Made when bytes come: a large model has tens of thousands of destinations.
  let stream: RowStream | undefined;
  return {
    write: async (chunk) => {
      if (stream === undefined || chunk.rowStart === 0) stream = newStream(chunk);
      const first = Math.max(chunk.rowStart, wanted.first);
      const end = Math.min(chunk.rowStart + chunk.rows, wanted.end);
      if (first < end) await stream.push(pick(chunk, first, end));
    },
    finish: async () => {
      await stream?.finish();
      stream = undefined;
    },
  };
}
