/**
 * Quantizes matrices of plain numbers on the GPU, on their way from a checkpoint to their places.
 *
 * Rows go through one staging tensor, as many at once as fit; a kernel makes codes and scales of
 * them and adds up how far those are from the numbers. Needed while weights load, not afterwards.
 *
 * @module
 */
import {
  partialsOf,
  type QuantizableDtype,
  type QuantizedDtype,
  type QuantizedRows,
  type QuantizedShape,
  quantizeWeight,
  stagedRowBytes,
} from "../../../kernels/linear/upload/quantize_weight.ts";
import { sumErrors } from "../../../kernels/linear/upload/sum_errors.ts";
import { orderOf, runRows } from "../../../kernels/linear/weights/weight_order.ts";
import type { Destination, WeightChunk } from "../../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../../errors.ts";
import { Readback } from "../../gpu/readback.ts";
import { allocateTensor, type Tensor } from "../../gpu/tensor.ts";
import type { MatrixPlace } from "./matrix_place.ts";
import { type RowRun, type RowSlice, RowStream, stagedRows, streamRows } from "./staged_rows.ts";
import { STAGING_BYTES, type StagedUpload } from "./staged_upload.ts";

/** The shortest row has 16 bytes and, with its padding, four groups; 64 groups have one partial. */
const MOST_PARTIALS = ((STAGING_BYTES / 16) * 4) / 64;
/** Two f32: squared errors, squares. */
const SUM_BYTES = 8;
/** Matrices that share a tensor of sums. */
const SUMS = 1024;

/** A matrix of a checkpoint, and the part of a place it goes to. */
export interface QuantizedPart {
  readonly place: Pick<MatrixPlace, "shape" | "partRows" | "rowsPadded" | "at">;
  readonly part: number;
  /** Matrices of the same name are reported as one. */
  readonly source: RowSlice & { readonly name: string };
}

export interface QuantizationError {
  readonly name: string;
  /**
   * Root of the squared errors over the squares, 0 for a matrix of zeros. NaN when the checkpoint
   * has numbers that are not finite.
   */
  readonly relativeError: number;
}

/** What is on the GPU while weights load. */
interface Workspace {
  readonly partials: Tensor;
  /** Made when the first of their matrices comes. */
  readonly sums: (Tensor | undefined)[];
  /** Matrices that came. */
  readonly sent: Set<number>;
  /** Bound launches by the words they write, then by everything else. */
  readonly launches: Map<Tensor, Map<string, Launch>>;
}

type Launch = (rows: QuantizedRows, index: number) => void;

export class QuantizingUpload {
  readonly #staged: StagedUpload;
  readonly #names = new Map<string, number>();
  #workspace: Workspace | undefined;

  /** @param staged Whose owner destroys it, after this. */
  constructor(staged: StagedUpload) {
    this.#staged = staged;
  }

  /**
   * Takes chunks of a BF16, F16 or F32 matrix and quantizes the part's rows and columns of it, in
   * the format of the part's place. Nothing is allocated before the first chunk.
   *
   * @throws {UnsupportedError} when `lanes` rows do not fit into the staging tensor.
   */
  destination({ place, part, source }: QuantizedPart): Destination {
    const { columns, layout } = place.shape;
    const { name, sourceRow = 0, sourceColumn = 0, shape } = source;
    if (layout.lanes * stagedRowBytes("F32", columns) > STAGING_BYTES) {
      throw new UnsupportedError(`quantization of ${name}`, `its rows have ${columns} columns`);
    }
    const index = this.#names.get(name) ?? this.#names.size;
    this.#names.set(name, index);
    const slice = { columns, sourceColumn, sourceColumns: shape?.[1] ?? columns };
    const firstRow = place.partRows[part]!;
    const newStream = (chunk: WeightChunk) => {
      const dtype = quantizable(name, chunk);
      const rowBytes = stagedRowBytes(dtype, columns);
      const run = runRows(layout);
      return new RowStream({
        unit: run * rowBytes > STAGING_BYTES ? layout.lanes : run,
        rowBytes,
        stagingBytes: STAGING_BYTES,
        send: (run) => this.#send({ place, dtype, index, firstRow, run }),
      });
    };
    const wanted = { first: sourceRow, end: sourceRow + place.shape.parts[part]! };
    return streamRows(newStream, wanted, (chunk, first, end) =>
      stagedRows(chunk, { ...slice, first, end }),
    );
  }

  /**
   * How far each matrix is from its numbers, in the order in which destinations were asked for.
   * Matrices whose bytes have not come are left out.
   */
  async report(): Promise<QuantizationError[]> {
    const workspace = this.#workspace;
    if (workspace === undefined) return [];
    const { sums, sent } = workspace;
    const { recorder } = this.#staged.workspace;
    const names = [...this.#names.keys()];
    const readback = new Readback(this.#staged.device, SUMS * SUM_BYTES, 1);
    const reported: QuantizationError[] = [];
    try {
      for (const [block, errors] of sums.entries()) {
        if (errors === undefined) continue;
        const read = readback.record(recorder, errors, SUMS * SUM_BYTES);
        recorder.submit();
        const values = new Float32Array(await read());
        names.slice(block * SUMS, (block + 1) * SUMS).forEach((name, i) => {
          if (!sent.has(block * SUMS + i)) return;
          const [error, square] = values.subarray(2 * i);
          reported.push({ name, relativeError: square === 0 ? 0 : Math.sqrt(error! / square!) });
        });
      }
    } finally {
      readback.destroy();
    }
    return reported;
  }

  /** Frees what is on the GPU. A later chunk allocates it again, and sums begin anew. */
  destroy(): void {
    const workspace = this.#workspace;
    this.#workspace = undefined;
    if (workspace === undefined) return;
    for (const tensor of [workspace.partials, ...workspace.sums]) tensor?.buffer.destroy();
  }

  async #send(options: {
    readonly place: QuantizedPart["place"];
    readonly dtype: QuantizableDtype;
    readonly index: number;
    /** Of the part. */
    readonly firstRow: number;
    readonly run: RowRun;
  }): Promise<void> {
    const { place, dtype, index, firstRow, run } = options;
    this.#workspace ??= this.#open();
    const launch = this.#launch(this.#workspace, place, dtype, index);
    const { wordsOffset, scalesOffset } = place.at;
    const rows = { firstRow: firstRow + run.firstRow, rowCount: run.rowCount };
    await this.#staged.send(run.pieces, () =>
      launch({ ...rows, wordsOffset, scalesOffset }, index % SUMS),
    );
    this.#workspace.sent.add(index);
  }

  #open(): Workspace {
    const { device } = this.#staged;
    return {
      partials: allocateTensor(device, MOST_PARTIALS * SUM_BYTES, "partial sums of errors"),
      sums: [],
      sent: new Set(),
      launches: new Map(),
    };
  }

  #launch(
    { partials, sums, launches }: Workspace,
    { shape, rowsPadded, at }: QuantizedPart["place"],
    sourceDtype: QuantizableDtype,
    index: number,
  ): Launch {
    const block = Math.floor(index / SUMS);
    const { device, workspace } = this.#staged;
    const { recorder, staging } = workspace;
    sums[block] ??= allocateTensor(device, SUMS * SUM_BYTES, "sums of errors");
    const errors = sums[block];
    const { format, columns, layout } = shape;
    const dtype = format.dtype as QuantizedDtype;
    const { groupColumns } = format;
    const target: QuantizedShape = {
      ...orderOf(layout),
      dtype,
      groupColumns,
      columns,
      rowsPadded,
    };
    const ofWords = launches.get(at.words) ?? new Map<string, Launch>();
    launches.set(at.words, ofWords);
    const key = JSON.stringify([target, sourceDtype, block]);
    const known = ofWords.get(key);
    if (known !== undefined) return known;
    const tensors = { staging, words: at.words, scales: at.scales!, partials };
    const quantize = quantizeWeight(recorder, { shape: target, sourceDtype, ...tensors });
    const sum = sumErrors(recorder, { partials, errors });
    const launch: Launch = (rows, sumIndex) => {
      quantize(rows);
      sum(partialsOf(target, rows), sumIndex);
    };
    ofWords.set(key, launch);
    return launch;
  }
}

function quantizable(name: string, { dtype }: WeightChunk): QuantizableDtype {
  if (dtype === "BF16" || dtype === "F16" || dtype === "F32") return dtype;
  throw new UnsupportedError(`quantization of ${name}`, `its dtype is ${dtype}`);
}
