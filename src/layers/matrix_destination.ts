/**
 * Puts a checkpoint's matrices where the linear kernels want them.
 *
 * A place on the GPU may hold several matrices one below the other (a fused projection, the gate
 * and up halves of an MLP); each starts at a multiple of `lanes` rows, and rows between two of them
 * are zero.
 *
 * @module
 */
import {
  BLOCK_COLUMNS,
  type LinearLayout,
  type LinearWeight,
  paddedRows,
  RowPacker,
  spreadScales,
  type WeightDtype,
  weightBytes,
} from "../../kernels/linear/layout.ts";
import type {
  Destination,
  WeightChunk,
  WeightSpec,
  WeightSplit,
} from "../checkpoint/weight_spec.ts";
import { type Dtype, decodeBf16, decodeF16 } from "../dtype.ts";
import { UnsupportedError } from "../errors.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Tensor } from "../gpu/tensor.ts";

const STORED_AS: Readonly<Partial<Record<Dtype, WeightDtype>>> = {
  F32: "f32",
  F16: "f16",
  BF16: "bf16",
  F8_E4M3: "fp8",
};

/** How a checkpoint's matrix is kept on the GPU. */
export function storedDtype(name: string, dtype: Dtype): WeightDtype {
  const stored = STORED_AS[dtype];
  if (stored === undefined) throw new UnsupportedError(`${name} of dtype ${dtype}`);
  return stored;
}

/** Element types a matrix stored this way may have in a checkpoint. */
export function checkpointDtype(stored: WeightDtype): Dtype {
  return (Object.keys(STORED_AS) as Dtype[]).find((dtype) => STORED_AS[dtype] === stored)!;
}

export interface MatrixShape {
  readonly dtype: WeightDtype;
  readonly columns: number;
  /** Rows of each matrix in the place. */
  readonly parts: readonly number[];
  readonly layout: LinearLayout;
}

/** Where a matrix of a checkpoint comes from. */
export interface MatrixSource {
  /** Tensor name without ".weight". */
  readonly name: string;
  readonly split: WeightSplit;
  /** Rows `[sourceRow, sourceRow + rows of the part)` of it are meant. Default: all of it. */
  readonly sourceRow?: number;
  /** Its shape when that is not the part's. */
  readonly shape?: readonly [rows: number, columns: number];
  /** First column meant, a multiple of 128 when the matrix is FP8. Default 0. */
  readonly sourceColumn?: number;
}

/** Fused matrices at one place of a words tensor and, for FP8, of a scales tensor. */
export class MatrixPlace {
  readonly shape: MatrixShape;
  /** First row of each part. */
  readonly partRows: readonly number[];
  readonly rowsPadded: number;
  readonly #memory: DeviceMemory;
  readonly #words: Tensor;
  readonly #wordsOffset: number;
  readonly #scales: Tensor | undefined;
  readonly #scalesOffset: number;
  /** Spread scales on the host, until every part has delivered its own. */
  #spread: Float32Array<ArrayBuffer> | undefined;
  #spreadParts = 0;

  constructor(
    memory: DeviceMemory,
    shape: MatrixShape,
    at: {
      readonly words: Tensor;
      readonly wordsOffset?: number;
      readonly scales?: Tensor | undefined;
      readonly scalesOffset?: number;
    },
  ) {
    this.shape = shape;
    this.partRows = partRows(shape);
    this.rowsPadded = totalRows(shape);
    this.#memory = memory;
    this.#words = at.words;
    this.#wordsOffset = at.wordsOffset ?? 0;
    this.#scales = at.scales;
    this.#scalesOffset = at.scalesOffset ?? 0;
  }

  /** What the checkpoint must hold for one part: its scales first, then its codes. */
  specs(part: number, source: MatrixSource): WeightSpec[] {
    const { dtype, columns, parts } = this.shape;
    const shape = source.shape ?? [parts[part]!, columns];
    const weight: WeightSpec = {
      name: `${source.name}.weight`,
      shape,
      dtypes: [checkpointDtype(dtype)],
      split: source.split,
      destination: this.#rowsOf(part, source),
    };
    if (dtype !== "fp8") return [weight];
    const scale: WeightSpec = {
      name: `${source.name}.weight_scale_inv`,
      shape: shape.map((size) => Math.ceil(size / BLOCK_COLUMNS)),
      dtypes: ["F32", "BF16"],
      split: source.split,
      destination: collectFloats((values) => this.#writeScales(part, source, values)),
    };
    return [scale, weight];
  }

  #rowsOf(part: number, { sourceRow = 0, sourceColumn = 0, shape }: MatrixSource): Destination {
    const { dtype, columns, parts, layout } = this.shape;
    const { lanes } = layout;
    const rows = parts[part]!;
    const newPacker = () =>
      new RowPacker({ dtype, columns, lanes, firstRow: this.partRows[part]! });
    // Made when bytes come: a large model has tens of thousands of destinations.
    let packer: RowPacker | undefined;
    const upload = (run: ReturnType<RowPacker["push"]>) => {
      if (run === undefined) return;
      this.#memory.write(this.#words, this.#wordsOffset + run.byteOffset, run.words);
    };
    return {
      write: (chunk) => {
        if (packer === undefined || chunk.rowStart === 0) packer = newPacker();
        const first = Math.max(chunk.rowStart, sourceRow);
        const end = Math.min(chunk.rowStart + chunk.rows, sourceRow + rows);
        if (first >= end) return;
        upload(
          packer.push(pickRows(chunk, first, end, columns, shape?.[1], sourceColumn), end - first),
        );
      },
      finish: () => {
        upload(packer?.finish());
        packer = undefined;
      },
    };
  }

  #writeScales(part: number, source: MatrixSource, blockScales: Float32Array): void {
    const { columns, parts } = this.shape;
    const blocks = Math.ceil(columns / BLOCK_COLUMNS);
    this.#spread ??= new Float32Array(blocks * this.rowsPadded);
    spreadScales({
      blockScales,
      columnBlocks: Math.ceil((source.shape?.[1] ?? columns) / BLOCK_COLUMNS),
      rows: parts[part]!,
      sourceRow: source.sourceRow ?? 0,
      firstColumnBlock: (source.sourceColumn ?? 0) / BLOCK_COLUMNS,
      columnBlockCount: blocks,
      into: this.#spread,
      rowsPadded: this.rowsPadded,
      firstRow: this.partRows[part]!,
    });
    this.#spreadParts += 1;
    if (this.#spreadParts < parts.length) return;
    this.#memory.write(this.#scales!, this.#scalesOffset, this.#spread);
    this.#spread = undefined;
    this.#spreadParts = 0;
  }
}

function partRows({ parts, layout: { lanes } }: MatrixShape): number[] {
  let next = 0;
  return parts.map((rows) => {
    const first = next;
    next += paddedRows(rows, lanes);
    return first;
  });
}

function totalRows({ parts, layout: { lanes } }: MatrixShape): number {
  return parts.reduce((sum, rows) => sum + paddedRows(rows, lanes), 0);
}

/** GPU bytes of the matrices of one place. */
export function placeBytes(shape: MatrixShape): {
  readonly words: number;
  readonly scales: number;
} {
  return weightBytes({ ...shape, lanes: shape.layout.lanes, rows: totalRows(shape) });
}

/** A fused weight in tensors of its own, for the linear kernels. */
export function allocateMatrix(
  memory: DeviceMemory,
  label: string,
  shape: MatrixShape,
): { readonly place: MatrixPlace; readonly weight: LinearWeight } {
  const bytes = placeBytes(shape);
  const words = memory.allocate("weights", bytes.words, label);
  const scales =
    bytes.scales === 0 ? undefined : memory.allocate("weights", bytes.scales, `${label} scales`);
  const place = new MatrixPlace(memory, shape, { words, scales });
  const { dtype, columns, layout } = shape;
  const rows = place.partRows.at(-1)! + shape.parts.at(-1)!;
  const weight = { ...layout, dtype, rows, columns, rowsPadded: place.rowsPadded, words };
  return { place, weight: scales === undefined ? weight : { ...weight, scales } };
}

/** Rows `[first, end)` of a chunk, and of each row `columns` elements from `sourceColumn` on. */
function pickRows(
  { bytes, rows, rowStart }: WeightChunk,
  first: number,
  end: number,
  columns: number,
  sourceColumns: number | undefined,
  sourceColumn: number,
): Uint8Array {
  const rowBytes = bytes.length / rows;
  const whole = bytes.subarray((first - rowStart) * rowBytes, (end - rowStart) * rowBytes);
  if (sourceColumns === undefined || sourceColumns === columns) return whole;
  const element = rowBytes / sourceColumns;
  const picked = new Uint8Array((end - first) * columns * element);
  for (let r = 0; r < end - first; r++) {
    const start = r * rowBytes + sourceColumn * element;
    picked.set(whole.subarray(start, start + columns * element), r * columns * element);
  }
  return picked;
}

/** Gathers a whole small tensor as float32 and hands it on once it is complete. */
export function collectFloats(take: (values: Float32Array<ArrayBuffer>) => void): Destination {
  let chunks: Float32Array[] = [];
  return {
    write(chunk) {
      if (chunk.rowStart === 0) chunks = [];
      chunks.push(toFloats(chunk));
    },
    finish() {
      const all = new Float32Array(chunks.reduce((sum, { length }) => sum + length, 0));
      let at = 0;
      for (const chunk of chunks) {
        all.set(chunk, at);
        at += chunk.length;
      }
      chunks = [];
      take(all);
    },
  };
}

/** The numbers of a chunk of F32, F16 or BF16. */
function toFloats({ dtype, bytes }: WeightChunk): Float32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (dtype === "F32") {
    return Float32Array.from({ length: bytes.length / 4 }, (_, i) => view.getFloat32(i * 4, true));
  }
  const decode = dtype === "F16" ? decodeF16 : decodeBf16;
  return Float32Array.from({ length: bytes.length / 2 }, (_, i) =>
    decode(view.getUint16(i * 2, true)),
  );
}

/** Gives every chunk to each of several destinations. */
function fanOut(destinations: readonly Destination[]): Destination {
  return {
    async write(chunk) {
      for (const destination of destinations) await destination.write(chunk);
    },
    async finish() {
      for (const destination of destinations) await destination.finish?.();
    },
  };
}

/** One list of specs for several slices of the same tensors. */
export function mergeSpecs(slices: readonly (readonly WeightSpec[])[]): WeightSpec[] {
  return slices[0]!.map((spec, i) => {
    if (slices.length === 1) return spec;
    return { ...spec, destination: fanOut(slices.map((slice) => slice[i]!.destination)) };
  });
}
