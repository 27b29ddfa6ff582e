/**
 * What quantize_weight does, number by number, with the same float32 roundings: codes and scales
 * agree bit for bit. Slow; for checks and tests.
 *
 * @module
 */
import { decodeE4m3, encodeE4m3 } from "../../../src/dtype.ts";
import { granulePlace, paddedRows, scalePlace } from "../weights/weight_order.ts";
import { type QuantizedShape, scaleGroups } from "./quantize_weight.ts";

const SHRINK = [1, 0.95, 0.9, 0.8];
const SMALLEST_SPAN = 2 ** -100;
const { fround } = Math;
const bits = new Uint32Array(1);
const float = new Float32Array(bits.buffer);

/** A group's codes with one scale; `scaleWord` is as the GPU keeps it. */
export interface QuantizedGroup {
  readonly codes: readonly number[];
  /** The numbers that the codes mean. */
  readonly values: readonly number[];
  readonly scaleWord: number;
}

function roundTiesEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  if (rest === 0.5) return below % 2 === 0 ? below : below + 1;
  return rest < 0.5 ? below : below + 1;
}

const clamp = (value: number, least: number, most: number) =>
  Math.min(Math.max(value, least), most);

/** Bits of a float32. */
function wordOf(value: number): number {
  float[0] = value;
  return bits[0]!;
}

/** Nearest float32 whose low five bits are zero. */
function roundScale(scale: number): number {
  const word = wordOf(scale);
  bits[0] = (word + 15 + ((word >>> 5) & 1)) & ~31;
  return float[0]!;
}

function int4Group(numbers: readonly number[]): QuantizedGroup {
  const least = Math.min(0, ...numbers);
  const most = Math.max(0, ...numbers);
  const span = fround(most - least);
  let best: QuantizedGroup | undefined;
  let bestError = Number.POSITIVE_INFINITY;
  for (const shrink of SHRINK) {
    const factor = fround(fround(shrink) / 15);
    const scale = span > SMALLEST_SPAN ? roundScale(fround(span * factor)) : 0;
    const inverse = scale > 0 ? fround(1 / scale) : 0;
    const shrunk = fround(-least * fround(shrink));
    const zero = clamp(roundTiesEven(fround(shrunk * inverse)), 0, 15);
    const codes = numbers.map(
      (v) => clamp(roundTiesEven(fround(v * inverse)), -zero, 15 - zero) + zero,
    );
    const values = codes.map((code) => (code - zero) * scale);
    let error = 0;
    numbers.forEach((v, i) => {
      const off = fround(values[i]! - v);
      error = fround(off * off + error);
    });
    if (error >= bestError) continue;
    bestError = error;
    best = { codes, values, scaleWord: (wordOf(scale) | zero) >>> 0 };
  }
  return best!;
}

function symmetricGroup(numbers: readonly number[], dtype: "int8" | "fp8"): QuantizedGroup {
  const largest = Math.max(...numbers.map(Math.abs));
  const factor = fround(1 / (dtype === "int8" ? 127 : 448));
  const scale = largest > SMALLEST_SPAN ? fround(largest * factor) : 0;
  const inverse = scale > 0 ? fround(1 / scale) : 0;
  const codes = numbers.map((v) => {
    const steps = fround(v * inverse);
    return dtype === "int8" ? clamp(roundTiesEven(steps), -127, 127) & 0xff : encodeE4m3(steps);
  });
  const values = codes.map(
    (code) => (dtype === "int8" ? (code << 24) >> 24 : decodeE4m3(code)) * scale,
  );
  return { codes, values, scaleWord: wordOf(scale) };
}

export function quantizeGroup(
  numbers: readonly number[],
  dtype: QuantizedShape["dtype"],
): QuantizedGroup {
  return dtype === "int4" ? int4Group(numbers) : symmetricGroup(numbers, dtype);
}

export interface QuantizeRows {
  readonly shape: QuantizedShape;
  /** `[rows, columns]` */
  readonly numbers: Float32Array;
  readonly firstRow: number;
  readonly words: Uint32Array;
  readonly scales: Uint32Array;
  /** First word, and first scale, of the weight. Default 0. */
  readonly firstWord?: number;
  readonly firstScale?: number;
}

/**
 * Quantizes whole rows into `words` and `scales`; padding rows become zeros.
 *
 * @returns Squared error and square of each row's groups, `[rows padded, groups, 2]`.
 */
export function quantizeRows(options: QuantizeRows): Float64Array {
  const { shape, numbers, firstRow, words, scales, firstWord = 0, firstScale = 0 } = options;
  const { dtype, columns, rowsPadded } = shape;
  const groups = scaleGroups(shape);
  const scaleAt = scalePlace(shape, { rowsPadded, groups });
  const codeBits = dtype === "int4" ? 4 : 8;
  const groupColumns = dtype === "int4" ? (shape.groupColumns ?? 128) : 128;
  const granulesPerRow = (groups * groupColumns * codeBits) / 128;
  const rows = numbers.length / columns;
  const granuleAt = granulePlace(shape, granulesPerRow);
  const padded = paddedRows(firstRow + rows, shape) - firstRow;
  const sums = new Float64Array(padded * groups * 2);
  for (let r = 0; r < padded; r++) {
    for (let g = 0; g < groups; g++) {
      const group = Array.from({ length: groupColumns }, (_, i) => {
        const column = g * groupColumns + i;
        return r < rows && column < columns ? numbers[r * columns + column]! : 0;
      });
      const { codes, values, scaleWord } = quantizeGroup(group, dtype);
      scales[firstScale + scaleAt(firstRow + r, g)] = r < rows ? scaleWord : 0;
      group.forEach((number, i) => {
        sums[2 * (r * groups + g)]! += (values[i]! - number) ** 2;
        sums[2 * (r * groups + g) + 1]! += number ** 2;
        const bit = (g * groupColumns + i) * codeBits;
        const granule = Math.floor(bit / 128);
        const at = granuleAt(firstRow + r, granule);
        const word = firstWord + at * 4 + Math.floor((bit % 128) / 32);
        if (bit % 32 === 0) words[word] = 0;
        words[word]! |= codes[i]! << (bit % 32);
      });
    }
  }
  return sums;
}
