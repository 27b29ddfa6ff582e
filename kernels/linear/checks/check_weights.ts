/**
 * Weights for the checks of kernels over interleaved weights: random ones, packed, and the same
 * as plain numbers.
 *
 * @module
 */
import { decodeBf16, decodeE4m3, decodeF16, encodeE4m3 } from "../../../src/dtype.ts";
import type { GatedActivation } from "../gated_activation.ts";
import { RowPacker, spreadScales } from "../upload/row_packer.ts";
import {
  BLOCK_COLUMNS,
  granulesOfRow,
  int4ScaleWord,
  scaleWords,
  WEIGHT_BYTES,
  type WeightDtype,
  type WeightShape,
  weightBytes,
} from "../weights/layout.ts";
import {
  granulePlace,
  type PlaceOf,
  paddedRows,
  scalePlace,
  type WeightOrder,
} from "../weights/weight_order.ts";

/** Lanes in checks that do not vary them. */
export const CHECK_LANES = 8;

/** Where the words of a case's weights lie. Default: where those of the plain tuning do. */
export type CheckOrder = Partial<WeightOrder>;

/** The order that is the least like the plain one. */
export const IN_RUNS = { rowsPerLane: 4, scaleOrder: "byRun" } as const;

/** All fields, so that they count whatever the adapter's own order is. */
export function checkOrder({
  lanes = CHECK_LANES,
  rowsPerLane = 1,
  scaleOrder = "byGroup",
}: CheckOrder): Required<WeightOrder> {
  return { lanes, rowsPerLane, scaleOrder };
}

/** The weight of a case with `outputs` rows. */
export function outputsByColumns(
  shape: CheckOrder & {
    readonly dtype: WeightDtype;
    readonly outputs: number;
    readonly columns: number;
  },
): WeightShape {
  const { dtype, outputs, columns } = shape;
  return { ...checkOrder(shape), dtype, rows: outputs, columns };
}

export interface PackedWeight {
  readonly words: Uint32Array;
  /** Words; a few that mean nothing where the dtype has no scales. */
  readonly scales: Uint32Array;
}

/** Row-major bytes of a matrix with elements of about 1. */
function randomBytes({ dtype, rows, columns }: WeightShape, random: () => number): Uint8Array {
  const count =
    dtype === "int4" || dtype === "mxfp4" ? rows * Math.ceil(columns / 2) : rows * columns;
  if (dtype === "int8" || dtype === "int4" || dtype === "mxfp4") {
    return Uint8Array.from({ length: count }, () => Math.floor(random() * 256));
  }
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
  const { rows, columns, dtype } = shape;
  const size = weightBytes(shape);
  const words = new Uint32Array(size.words / 4);
  const packer = new RowPacker(shape);
  const rowBytes = Math.ceil(columns * WEIGHT_BYTES[dtype]);
  const write = (run: ReturnType<RowPacker["finish"]>) => {
    if (run !== undefined) words.set(run.words, run.byteOffset / 4);
  };
  for (let r = 0; r < rows; ) {
    const count = Math.min(1 + (r % 3), rows - r);
    write(packer.push(bytes.subarray(r * rowBytes, (r + count) * rowBytes), count));
    r += count;
  }
  write(packer.finish());
  const scales = new Uint32Array(size.scales / 4);
  if (blockScales !== undefined) {
    const columnBlocks = Math.ceil(columns / BLOCK_COLUMNS);
    const into = new Float32Array(scales.buffer);
    spreadScales({ blockScales, columnBlocks, rows, into, place: scalesOf(shape) });
  }
  return { words, scales };
}

function scalesOf(shape: WeightShape): PlaceOf {
  const rowsPadded = paddedRows(shape.rows, shape);
  return scalePlace(shape, { rowsPadded, groups: scaleWords(shape) });
}

export function randomWeight(shape: WeightShape, random: () => number): PackedWeight {
  // A scale for every row and group, as fused rows may have.
  const { words, scales } = packWeight(shape, randomBytes(shape, random));
  if (scales.length === 0) return { words, scales: new Uint32Array(4) };
  return { words, scales: scales.map(() => randomScaleWord(shape.dtype, random)) };
}

/** The same weight with its words in another order. */
export function reorderWeight(
  shape: WeightShape,
  order: Required<WeightOrder>,
  packed: PackedWeight,
): PackedWeight {
  const to = { ...shape, ...order };
  const size = weightBytes(to);
  const words = new Uint32Array(size.words / 4);
  const scales = new Uint32Array(Math.max(size.scales / 4, packed.scales.length));
  const granules = granulesOfRow(shape);
  const [granuleFrom, granuleTo] = [granulePlace(shape, granules), granulePlace(to, granules)];
  const [scaleFrom, scaleTo] = [scalesOf(shape), scalesOf(to)];
  for (let r = 0; r < shape.rows; r++) {
    for (let g = 0; g < granules; g++) {
      const from = 4 * granuleFrom(r, g);
      words.set(packed.words.subarray(from, from + 4), 4 * granuleTo(r, g));
    }
    for (let g = 0; g < scaleWords(shape); g++) {
      scales[scaleTo(r, g)] = packed.scales[scaleFrom(r, g)]!;
    }
  }
  return { words, scales };
}

/** Numbers in [-1, 1), for a row and the padding after it; for many experts, one after another. */
export function randomBias(
  shape: Pick<WeightShape, "rows"> & WeightOrder,
  random: () => number,
): Float32Array {
  return Float32Array.from({ length: paddedRows(shape.rows, shape) }, () => random() * 2 - 1);
}

const scaleFloat = new Float32Array(1);
const scaleBits = new Uint32Array(scaleFloat.buffer);

/** Scales that bring elements to a size of about 1. */
function randomScaleWord(dtype: WeightDtype, random: () => number): number {
  if (dtype === "int4") return int4ScaleWord((0.5 + random()) / 8, Math.floor(random() * 17));
  if (dtype === "mxfp4") {
    return [0, 8, 16, 24].reduce((w, bit) => w + (124 + Math.floor(random() * 3)) * 2 ** bit, 0);
  }
  // 200 codes of FP8 are about 1 in size.
  scaleFloat[0] = (0.5 + random()) / 100;
  return scaleBits[0]!;
}

let operandOf = (weight: number) => weight;

/** What `work` gives, with weights that `unpackWeight` rounds as a numeric class does. */
export function roundingWeights<T>(round: (weight: number) => number, work: () => T): T {
  operandOf = round;
  try {
    return work();
  } finally {
    operandOf = (weight) => weight;
  }
}

/** `[rows, columns]`: the numbers a packed matrix stands for. */
export function unpackWeight(shape: WeightShape, { words, scales }: PackedWeight): Float64Array {
  const { dtype, rows, columns } = shape;
  const bytes = WEIGHT_BYTES[dtype];
  const granuleAt = granulePlace(shape, granulesOfRow(shape));
  const scaleAt = scalesOf(shape);
  const { groupColumns = BLOCK_COLUMNS } = shape;
  const perScale = dtype === "int4" ? groupColumns : BLOCK_COLUMNS;
  const dense = new Float64Array(rows * columns);
  for (let r = 0; r < rows; r++) {
    for (let k = 0; k < columns; k++) {
      const byte = Math.floor(k * bytes);
      const word = words[granuleAt(r, byte >> 4) * 4 + ((byte & 15) >> 2)]!;
      const bits = bytes < 1 ? word >>> (4 * (k % 8)) : word >>> (8 * (byte & 3));
      const scale = scales[scaleAt(r, Math.floor(k / perScale))]!;
      dense[r * columns + k] = operandOf(decodeElement(dtype, bits, { scale, column: k }));
    }
  }
  return dense;
}

const E4M3 = Float64Array.from({ length: 256 }, (_, code) => decodeE4m3(code));
const E2M1 = [0, 0.5, 1, 1.5, 2, 3, 4, 6];

function floatOf(bits: number): number {
  scaleBits[0] = bits;
  return scaleFloat[0]!;
}

/** @param bits the element in the low ones, others above. */
function decodeElement(
  dtype: WeightDtype,
  bits: number,
  { scale, column }: { readonly scale: number; readonly column: number },
): number {
  switch (dtype) {
    case "f32":
      return floatOf(bits);
    case "bf16":
      return decodeBf16(bits & 0xffff);
    case "f16":
      return decodeF16(bits & 0xffff);
    case "fp8":
      return E4M3[bits & 0xff]! * floatOf(scale);
    case "int8":
      return ((bits << 24) >> 24) * floatOf(scale);
    case "int4":
      return ((bits & 15) - (scale & 31)) * floatOf(scale - (scale & 31));
    case "mxfp4": {
      const exponent = (scale >>> (8 * (Math.floor(column / 32) % 4))) & 0xff;
      return (bits & 8 ? -1 : 1) * E2M1[bits & 7]! * 2 ** (exponent - 127);
    }
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

/** Gate and up put together, for the `count` outputs whose dot products these are. */
export function gatedRow(
  count: number,
  gate: (i: number) => number,
  up: (i: number) => number,
  activation: GatedActivation = { kind: "silu" },
): Float64Array {
  return Float64Array.from({ length: count }, (_, i) => {
    if (activation.kind === "silu") return (gate(i) / (1 + Math.exp(-gate(i)))) * up(i);
    const { alpha, limit } = activation;
    const g = Math.min(gate(i), limit);
    const u = Math.min(Math.max(up(i), -limit), limit);
    return ((u + 1) * g) / (1 + Math.exp(-alpha * g));
  });
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
