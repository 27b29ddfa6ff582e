/**
 * Weights for the checks of kernels over interleaved weights: random ones, packed, and the same
 * as plain numbers.
 *
 * @module
 */
import { decodeBf16, decodeE4m3, decodeF16, encodeE4m3 } from "../../src/dtype.ts";
import {
  BLOCK_COLUMNS,
  paddedRows,
  RowPacker,
  spreadScales,
  WEIGHT_BYTES,
  type WeightDtype,
  type WeightShape,
  weightBytes,
} from "./layout.ts";

export interface PackedWeight {
  readonly words: Uint32Array;
  /** Empty but for FP8. */
  readonly scales: Float32Array;
}

/** Row-major bytes of a matrix with elements of about 1. */
function randomBytes({ dtype, rows, columns }: WeightShape, random: () => number): Uint8Array {
  const count = rows * columns;
  if (dtype === "fp8") {
    return Uint8Array.from({ length: count }, () => {
      const code = Math.floor(random() * 256);
      return (code & 0x7f) === 0x7f ? code - 1 : code;
    });
  }
  const floats = Float32Array.from({ length: count }, () => random() * 2 - 1);
  if (dtype === "f32") return new Uint8Array(floats.buffer);
  const bits = new Uint32Array(floats.buffer);
  // Any 16 bits are a number in both 16-bit types when the exponent is kept off its largest value.
  const halves = Uint16Array.from(bits, (b, i) =>
    dtype === "bf16" ? b >>> 16 : ((b >>> 16) & 0x8000) | (0x3800 + ((b + i) & 0x3ff)),
  );
  return new Uint8Array(halves.buffer);
}

/** Packs row-major bytes in pieces of one to three rows. */
export function packWeight(
  shape: WeightShape,
  bytes: Uint8Array,
  blockScales?: Float32Array,
): PackedWeight {
  const { rows, columns, dtype, lanes } = shape;
  const size = weightBytes(shape);
  const words = new Uint32Array(size.words / 4);
  const packer = new RowPacker(shape);
  const rowBytes = columns * WEIGHT_BYTES[dtype];
  const write = (run: ReturnType<RowPacker["finish"]>) => {
    if (run !== undefined) words.set(run.words, run.byteOffset / 4);
  };
  for (let r = 0; r < rows; ) {
    const count = Math.min(1 + (r % 3), rows - r);
    write(packer.push(bytes.subarray(r * rowBytes, (r + count) * rowBytes), count));
    r += count;
  }
  write(packer.finish());
  const scales = new Float32Array(size.scales / 4);
  if (blockScales !== undefined) {
    const rowsPadded = paddedRows(rows, lanes);
    const columnBlocks = Math.ceil(columns / BLOCK_COLUMNS);
    spreadScales({ blockScales, columnBlocks, rows, into: scales, rowsPadded });
  }
  return { words, scales };
}

export function randomWeight(shape: WeightShape, random: () => number): PackedWeight {
  const blocks = Math.ceil(shape.columns / BLOCK_COLUMNS);
  // A scale for every row and block, as fused rows may have; 200 codes are about 1 in size.
  const packed = packWeight(shape, randomBytes(shape, random));
  const scales = packed.scales.map(() => (0.5 + random()) / 100);
  return { words: packed.words, scales: shape.dtype === "fp8" ? scales : new Float32Array(blocks) };
}

/** `[rows, columns]`: the numbers a packed matrix stands for. */
export function unpackWeight(shape: WeightShape, { words, scales }: PackedWeight): Float64Array {
  const { dtype, rows, columns, lanes } = shape;
  const bytes = WEIGHT_BYTES[dtype];
  const granules = (Math.ceil(columns / BLOCK_COLUMNS) * BLOCK_COLUMNS * bytes) / 16;
  const rowsPadded = paddedRows(rows, lanes);
  const dense = new Float64Array(rows * columns);
  for (let r = 0; r < rows; r++) {
    for (let k = 0; k < columns; k++) {
      const byte = k * bytes;
      const granule = (Math.floor(r / lanes) * granules + (byte >> 4)) * lanes + (r % lanes);
      const word = words[granule * 4 + ((byte & 15) >> 2)]!;
      const value = decodeElement(dtype, word, byte & 3);
      const scale = dtype === "fp8" ? scales[Math.floor(k / BLOCK_COLUMNS) * rowsPadded + r]! : 1;
      dense[r * columns + k] = value * scale;
    }
  }
  return dense;
}

const scratch = new DataView(new ArrayBuffer(4));
const E4M3 = Float64Array.from({ length: 256 }, (_, code) => decodeE4m3(code));

function decodeElement(dtype: WeightDtype, word: number, byte: number): number {
  switch (dtype) {
    case "f32":
      scratch.setUint32(0, word);
      return scratch.getFloat32(0);
    case "bf16":
      return decodeBf16((word >>> (8 * byte)) & 0xffff);
    case "f16":
      return decodeF16((word >>> (8 * byte)) & 0xffff);
    case "fp8":
      return E4M3[(word >>> (8 * byte)) & 0xff]!;
    case "int8":
    case "int4":
    case "mxfp4":
      return Number.NaN;
    default:
      return dtype satisfies never;
  }
}

/** Rows of numbers in [-1, 1), with NaN in the columns from `columns` to `stride`. */
export function randomRows(
  { rows, columns, stride }: { rows: number; columns: number; stride: number },
  random: () => number,
): Float32Array {
  return Float32Array.from({ length: rows * stride }, (_, i) =>
    i % stride < columns ? random() * 2 - 1 : Number.NaN,
  );
}

/** `silu(gate) * up` of the `count` outputs whose dot products these are. */
export function gatedRow(
  count: number,
  gate: (i: number) => number,
  up: (i: number) => number,
): Float64Array {
  return Float64Array.from(
    { length: count },
    (_, i) => (gate(i) / (1 + Math.exp(-gate(i)))) * up(i),
  );
}

/** Rounds each 128 values to E4M3 with a scale of their own. */
export function quantizeRow(values: Float64Array): void {
  for (let first = 0; first < values.length; first += 128) {
    const group = values.subarray(first, first + 128);
    const largest = group.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const scale = Math.max(largest, 1e-4) / 448;
    group.forEach((value, i) => {
      group[i] = decodeE4m3(encodeE4m3(value / scale)) * scale;
    });
  }
}

/** The dot product of row `row` of `weight` with the numbers of `x` from `first` on. */
export function dot(
  { weight, columns, row }: { weight: Float64Array; columns: number; row: number },
  x: ArrayLike<number>,
  first: number,
): number {
  let sum = 0;
  for (let k = 0; k < columns; k++) sum += weight[row * columns + k]! * x[first + k]!;
  return sum;
}
