/**
 * Projected vectors and the f64 reference of what becomes of them that the checks of kernels which
 * write keys and values share.
 *
 * @module
 */
import { encodeBf16 } from "../../src/dtype.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { HostArrays } from "../check.ts";
import type { CacheDtype } from "./cache_kernel.ts";
import { bf16Words } from "./host_cache.ts";
import { fp8Runs, fp8Scale, isFp8Dtype, nearTieOfFp8 } from "./host_fp8.ts";

export interface VectorShape {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly rotary: number;
  readonly norm: boolean;
  /** Size of what is projected. */
  readonly scale: number;
  readonly eps: number;
  readonly dtype: CacheDtype;
}

const PAD = 4;

/** Values, queries, keys, with columns of no tensor between them. */
export function columns({ heads, kvHeads, headDim }: VectorShape) {
  const value = 2;
  const query = value + kvHeads * headDim + PAD;
  const key = query + heads * headDim + 2;
  return { value, query, key, stride: key + kvHeads * headDim + PAD };
}

/** Where the weights of keys begin: behind those of queries, and some of no tensor. */
const keyNorm = ({ headDim }: VectorShape) => headDim + PAD;

/** True where the error of a rotation in f32 could round to the other neighbour. */
const nearTieOfBf16 = (value: number) => encodeBf16(value - 1e-6) !== encodeBf16(value + 1e-6);

/** One head, normed and rotated in halves. */
function turned(
  shape: VectorShape,
  inputs: HostArrays,
  { r, column, weight }: { readonly r: number; readonly column: number; readonly weight: number },
): number[] {
  const { headDim, rotary, norm, eps } = shape;
  const { projected, rows, rope_table } = inputs;
  const at = r * columns(shape).stride + column;
  let squares = 0;
  for (let c = 0; c < headDim; c++) squares += projected![at + c]! ** 2;
  const scale = 1 / Math.sqrt(squares / headDim + eps);
  const x = Array.from({ length: headDim }, (_, c) =>
    norm ? projected![at + c]! * scale * inputs.norms![weight + c]! : projected![at + c]!,
  );
  const half = rotary / 2;
  return x.map((value, c) => {
    if (c >= rotary) return value;
    const turn = rows![r * 4 + 1]! * rotary + 2 * (c % half);
    const [cos, sin] = [rope_table![turn]!, rope_table![turn + 1]!];
    return c < half ? value * cos - x[c + half]! * sin : x[c - half]! * sin + value * cos;
  });
}

/** The queries of row `r`. */
export function turnedQueries(shape: VectorShape, inputs: HostArrays, r: number): number[] {
  const { query } = columns(shape);
  const heads = Array.from({ length: shape.heads }, (_, h) => query + h * shape.headDim);
  return heads.flatMap((column) => turned(shape, inputs, { r, column, weight: 0 }));
}

/** The cache entry of row `r` before it is rounded. */
function entry(shape: VectorShape, inputs: HostArrays, r: number): number[] {
  const { kvHeads, headDim } = shape;
  const { key, value, stride } = columns(shape);
  const values: number[] = [];
  for (let h = 0; h < kvHeads; h++) {
    values.push(...turned(shape, inputs, { r, column: key + h * headDim, weight: keyNorm(shape) }));
  }
  const at = r * stride + value;
  for (let c = 0; c < kvHeads * headDim; c++) values.push(inputs.projected![at + c]!);
  return values;
}

/**
 * For FP8, whose scales have to be the same to the bit: numbers on a grid so coarse that f32 rotates
 * them without an error.
 */
const onGrid = (value: number, steps: number) => Math.round(value * steps) / steps;

/** Places in the entry of values so close to a tie that f32 and f64 may round them differently. */
function nearTies(shape: VectorShape, written: readonly number[]): number[] {
  const { dtype, headDim } = shape;
  if (!isFp8Dtype(dtype)) {
    return written.flatMap((value, i) => (nearTieOfBf16(value) ? [i] : []));
  }
  return written.flatMap((value, i) => {
    const first = i - (i % headDim);
    const scale = fp8Scale(written.slice(first, first + headDim), dtype);
    return value !== 0 && nearTieOfFp8(value / scale, dtype) ? [i] : [];
  });
}

/** The entry of row `r` as its cache holds it. */
export function storedEntry(shape: VectorShape, inputs: HostArrays, r: number) {
  const { dtype, headDim } = shape;
  const written = entry(shape, inputs, r);
  if (isFp8Dtype(dtype)) return fp8Runs(written, headDim, dtype);
  return dtype === "bf16" ? bf16Words(written) : Float64Array.from(written);
}

/** @param rows `[rows]` vec4u, with their positions. What a kernel must not read is NaN. */
export function vectorInputs(
  shape: VectorShape,
  rows: Uint32Array<ArrayBuffer>,
  random: () => number,
) {
  const { heads, kvHeads, headDim, rotary, scale, dtype } = shape;
  const { key, value, query, stride } = columns(shape);
  const count = rows.length / 4;
  const positions = 1 + Math.max(...Array.from({ length: count }, (_, r) => rows[r * 4 + 1]!));
  const fp8 = isFp8Dtype(dtype);
  const draw = () => (fp8 ? onGrid(random() * 2 - 1, 4096) : random() * 2 - 1) * scale;
  // Of many sizes, the smallest codes' too.
  const drawValue = () => (fp8 ? draw() * 2 ** -Math.floor(36 * random() ** 3) : draw());
  const projected = new Float32Array(count * stride).fill(Number.NaN);
  const norms = new Float32Array(keyNorm(shape) + headDim).fill(Number.NaN);
  for (const first of [0, keyNorm(shape)]) {
    for (let c = 0; c < headDim; c++) norms[first + c] = 0.5 + random();
  }
  const rope_table = Float32Array.from({ length: positions * rotary }, () => {
    const turn = random() * 2 - 1;
    return fp8 ? onGrid(turn, 4) : turn;
  });
  const inputs = { projected, norms, rows, rope_table };
  for (let r = 0; r < count; r++) {
    for (let c = 0; c < heads * headDim; c++) projected[r * stride + query + c] = draw();
    for (let c = 0; c < kvHeads * headDim; c++) projected[r * stride + key + c] = draw();
    for (let c = 0; c < kvHeads * headDim; c++) projected[r * stride + value + c] = drawValue();
    // A value of zeros.
    if (r === 1) projected.fill(0, r * stride + value, r * stride + value + headDim);
  }
  // Draw again what lies so close to a tie that f32 and f64 may round it differently.
  for (let again = true; again; ) {
    again = false;
    for (let r = 0; r < count; r++) {
      for (const i of nearTies(shape, entry(shape, inputs, r))) {
        again = true;
        const keys = kvHeads * headDim;
        if (i < keys) projected[r * stride + key + i] = draw();
        else projected[r * stride + value + i - keys] = drawValue();
      }
    }
  }
  return inputs;
}

/** The options that both kernels take. */
export function vectorOptions(shape: VectorShape, tensors: Readonly<Record<string, Tensor>>) {
  const { heads, kvHeads, headDim, rotary, norm, eps, dtype } = shape;
  const { key, value, query, stride } = columns(shape);
  return {
    projected: tensors.projected!,
    projectedStride: stride,
    queryColumn: query,
    keyColumn: key,
    valueColumn: value,
    norms: norm ? { weights: tensors.norms!, key: keyNorm(shape) } : undefined,
    eps,
    rows: tensors.rows!,
    ropeTable: tensors.rope_table!,
    rotary,
    cache: tensors.cache!,
    cacheDtype: dtype,
    heads,
    kvHeads,
    headDim,
  };
}
