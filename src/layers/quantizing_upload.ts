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
} from "../../kernels/linear/quantize_weight.ts";
import { sumErrors } from "../../kernels/linear/sum_errors.ts";
import type { Destination, WeightChunk } from "../checkpoint/weight_spec.ts";
import { UnsupportedError } from "../errors.ts";
import { Readback } from "../gpu/readback.ts";
import { Recorder } from "../gpu/recorder.ts";
import { finished } from "../gpu/submit_poll.ts";
import { allocateTensor, type Tensor } from "../gpu/tensor.ts";
import type { MatrixPlace } from "./matrix_place.ts";
import { type RowRun, RowStream, stagedRows } from "./staged_rows.ts";

const STAGING_BYTES = 4 * 1024 * 1024;
/** The shortest row has 16 bytes and, with its padding, four groups; 64 groups have one partial. */
const MOST_PARTIALS = ((STAGING_BYTES / 16) * 4) / 64;
/** Two f32: squared errors, squares. */
const SUM_BYTES = 8;
/** Matrices that share a tensor of sums. */
const SUMS = 1024;
/** Submits that may be on their way: one on the GPU, one behind it. */
const MOST_SUBMITS = 2;

/** A matrix of a checkpoint, and the part of a place it goes to. */
export interface QuantizedPart {
  readonly place: Pick<MatrixPlace, "shape" | "partRows" | "rowsPadded" | "at">;
  readonly part: number;
  readonly source: {
    /** Matrices of the same name are reported as one. */
    readonly name: string;
    /** First row meant. Default 0. */
    readonly sourceRow?: number;
    /** First column meant. Default 0. */
    readonly sourceColumn?: number;
    /** Of the matrix in the checkpoint, when that is not the part's. */
    readonly shape?: readonly [rows: number, columns: number];
  };
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
  readonly recorder: Recorder;
  readonly staging: Tensor;
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
  readonly #device: GPUDevice;
  readonly #names = new Map<string, number>();
  readonly #inFlight: Promise<unknown>[] = [];
  #workspace: Workspace | undefined;

  constructor(device: GPUDevice) {
    this.#device = device;
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
    const rows = place.shape.parts[part]!;
    const slice = { columns, sourceColumn, sourceColumns: shape?.[1] ?? columns };
    const firstRow = place.partRows[part]!;
    const newStream = (dtype: QuantizableDtype) =>
      new RowStream({
        lanes: layout.lanes,
        rowBytes: stagedRowBytes(dtype, columns),
        stagingBytes: STAGING_BYTES,
        send: (run) => this.#send({ place, dtype, index, firstRow, run }),
      });
    let stream: RowStream | undefined;
    return {
      write: async (chunk) => {
        if (stream === undefined || chunk.rowStart === 0)
          stream = newStream(quantizable(name, chunk));
        const first = Math.max(chunk.rowStart, sourceRow);
        const end = Math.min(chunk.rowStart + chunk.rows, sourceRow + rows);
        if (first < end) await stream.push(stagedRows(chunk, { ...slice, first, end }));
      },
      finish: async () => {
        await stream?.finish();
        stream = undefined;
      },
    };
  }

  /**
   * How far each matrix is from its numbers, in the order in which destinations were asked for.
   * Matrices whose bytes have not come are left out.
   */
  async report(): Promise<QuantizationError[]> {
    const workspace = this.#workspace;
    if (workspace === undefined) return [];
    const { recorder, sums, sent } = workspace;
    const names = [...this.#names.keys()];
    const readback = new Readback(this.#device, SUMS * SUM_BYTES, 1);
    const reported: QuantizationError[] = [];
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
    readback.destroy();
    return reported;
  }

  /** Frees what is on the GPU. A later chunk allocates it again, and sums begin anew. */
  destroy(): void {
    const workspace = this.#workspace;
    this.#workspace = undefined;
    if (workspace === undefined) return;
    const { recorder, staging, partials, sums } = workspace;
    for (const tensor of [staging, partials, ...sums]) tensor?.buffer.destroy();
    recorder.destroy();
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
    const { recorder, staging } = this.#workspace;
    const launch = this.#launch(this.#workspace, place, dtype, index);
    await recorder.pipelines.ready();
    // Bounds the copies of chunks that the queue holds.
    while (this.#inFlight.length >= MOST_SUBMITS) await this.#inFlight.shift();
    const { queue } = this.#device;
    let at = staging.offset;
    for (const piece of run.pieces) {
      queue.writeBuffer(staging.buffer, at, piece);
      at += piece.byteLength;
    }
    const { wordsOffset, scalesOffset } = place.at;
    const rows = { firstRow: firstRow + run.firstRow, rowCount: run.rowCount };
    launch({ ...rows, wordsOffset, scalesOffset }, index % SUMS);
    recorder.submit();
    this.#workspace.sent.add(index);
    const done = finished(this.#device, queue.onSubmittedWorkDone());
    // When loading fails elsewhere nobody awaits it any more.
    done.catch(() => {});
    this.#inFlight.push(done);
  }

  #open(): Workspace {
    const device = this.#device;
    return {
      recorder: new Recorder(device),
      staging: allocateTensor(device, STAGING_BYTES, "staged rows"),
      partials: allocateTensor(device, MOST_PARTIALS * SUM_BYTES, "partial sums of errors"),
      sums: [],
      sent: new Set(),
      launches: new Map(),
    };
  }

  #launch(
    { recorder, staging, partials, sums, launches }: Workspace,
    { shape, rowsPadded, at }: QuantizedPart["place"],
    sourceDtype: QuantizableDtype,
    index: number,
  ): Launch {
    const block = Math.floor(index / SUMS);
    sums[block] ??= allocateTensor(this.#device, SUMS * SUM_BYTES, "sums of errors");
    const errors = sums[block];
    const { format, columns, layout } = shape;
    const { lanes } = layout;
    const dtype = format.dtype as QuantizedDtype;
    const { groupColumns } = format;
    const target: QuantizedShape = { dtype, groupColumns, columns, rowsPadded, lanes };
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
      sum(partialsOf(target, rows.rowCount), sumIndex);
    };
    ofWords.set(key, launch);
    return launch;
  }
}

function quantizable(name: string, { dtype }: WeightChunk): QuantizableDtype {
  if (dtype === "BF16" || dtype === "F16" || dtype === "F32") return dtype;
  throw new UnsupportedError(`quantization of ${name}`, `its dtype is ${dtype}`);
}
