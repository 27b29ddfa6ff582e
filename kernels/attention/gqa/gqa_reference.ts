/**
 * Inputs and the f64 reference that the checks of grouped-query attention share.
 *
 * @module
 */
import type { Tensor } from "../../../src/gpu/tensor.ts";
import type { CacheDtype } from "../../cache/cache_kernel.ts";
import { gqaFp8EntryBytes } from "../../cache/gqa_write.ts";
import { bf16Words, decodeBf16 } from "../../cache/host_cache.ts";
import { decodeFp8Runs, fp8Runs, isFp8Dtype } from "../../cache/host_fp8.ts";
import type { HostArray, HostArrays } from "../../check.ts";
import { SHARED_ROWS } from "../split_launch.ts";

export interface GqaShape {
  /** Rows `[first, first + rows)` of each sequence. */
  readonly sequences: readonly { readonly first: number; readonly rows: number }[];
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly pageSize: number;
  readonly splitLength: number;
  readonly dtype: CacheDtype;
  readonly window?: number;
  readonly sinks?: boolean;
}

export const GQA_SCALE = 0.3;
/** Columns of a row that no tensor owns. */
export const GQA_PAD = 4;

export const gqaColumns = ({ heads, headDim }: GqaShape) => heads * headDim;
export const gqaRows = ({ sequences }: GqaShape) =>
  sequences.reduce((sum, { rows }) => sum + rows, 0);
const longest = ({ sequences }: GqaShape) =>
  Math.max(...sequences.map(({ first, rows }) => first + rows));
export const gqaSplits = (shape: GqaShape) => Math.ceil(longest(shape) / shape.splitLength);

/** First key that the row at `position` sees. */
const firstSeen = ({ window = Number.POSITIVE_INFINITY }: GqaShape, position: number) =>
  Math.max(0, position + 1 - window);

/** Keys that all rows see, added up. */
export function gqaPairs(shape: GqaShape): number {
  let pairs = 0;
  for (const { first, rows } of shape.sequences) {
    for (let p = first; p < first + rows; p++) pairs += p + 1 - firstSeen(shape, p);
  }
  return pairs;
}

/** Bytes of the keys and values that some row sees, once. */
export function gqaCacheBytes(shape: GqaShape): number {
  const { sequences, kvHeads, headDim, dtype } = shape;
  const keys = sequences.reduce(
    (sum, { first, rows }) => sum + first + rows - firstSeen(shape, first),
    0,
  );
  if (isFp8Dtype(dtype)) return keys * gqaFp8EntryBytes(kvHeads, headDim);
  return keys * 2 * kvHeads * headDim * (dtype === "bf16" ? 2 : 4);
}

/** Entries as the cache holds them. */
function encodeEntries(entries: Float32Array, { dtype, headDim }: GqaShape) {
  if (isFp8Dtype(dtype)) return fp8Runs(entries, headDim, dtype);
  return dtype === "bf16" ? bf16Words(entries) : entries;
}

function decodeEntries(cache: HostArray, { dtype, headDim }: GqaShape): ArrayLike<number> {
  if (isFp8Dtype(dtype)) return decodeFp8Runs(cache as Uint32Array, headDim, dtype);
  return dtype === "bf16" ? decodeBf16(cache as Uint32Array) : cache;
}

/** What must not be read is NaN: padding, keys that no row sees, pages of no sequence. */
export function gqaInputs(shape: GqaShape, random: () => number) {
  const { sequences, kvHeads, headDim, pageSize } = shape;
  const draw = () => random() * 4 - 2;
  const columns = gqaColumns(shape);
  const stride = columns + GQA_PAD;
  const q = new Float32Array(gqaRows(shape) * stride).fill(Number.NaN);
  const pagesOf = sequences.map(({ first, rows }) => Math.ceil((first + rows) / pageSize));
  const pages = pagesOf.reduce((a, b) => a + b, 0);
  // Page p of the cache belongs to the p-th entry from the end; one entry in front is unused.
  const page_tables = Uint32Array.from({ length: pages + 1 }, (_, i) => pages - i);
  const rows = new Uint32Array(gqaRows(shape) * 4);
  const width = 2 * kvHeads * headDim;
  const entries = new Float32Array((pages + 1) * pageSize * width).fill(Number.NaN);
  let row = 0;
  let firstPage = 1;
  sequences.forEach((sequence, s) => {
    const end = sequence.first + sequence.rows;
    for (let key = firstSeen(shape, sequence.first); key < end; key++) {
      const page = page_tables[firstPage + Math.floor(key / pageSize)]!;
      const at = (page * pageSize + (key % pageSize)) * width;
      for (let c = 0; c < width; c++) entries[at + c] = draw();
    }
    for (let r = 0; r < sequence.rows; r++, row++) {
      rows.set([5, sequence.first + r, 6, firstPage], row * 4);
      for (let c = 0; c < columns; c++) q[row * stride + c] = draw();
    }
    firstPage += pagesOf[s]!;
  });
  return {
    q,
    cache: encodeEntries(entries, shape),
    rows,
    page_tables,
    // About as large as the scores, so that they count.
    sinks: Float32Array.from({ length: shape.heads }, () => 10 * draw()),
  };
}

/** `[rows, heads * headDim + GQA_PAD]`, NaN in the padding. */
export function gqaReference(shape: GqaShape, inputs: HostArrays): Float64Array {
  const { heads, kvHeads, headDim, pageSize } = shape;
  const { q, rows, page_tables } = inputs;
  const cache = decodeEntries(inputs.cache!, shape);
  const stride = gqaColumns(shape) + GQA_PAD;
  const out = new Float64Array(gqaRows(shape) * stride).fill(Number.NaN);
  for (let r = 0; r < gqaRows(shape); r++) {
    const position = rows![r * 4 + 1]!;
    const start = firstSeen(shape, position);
    const keys = Array.from({ length: position + 1 - start }, (_, i) => {
      const page = page_tables![rows![r * 4 + 3]! + Math.floor((start + i) / pageSize)]!;
      return (page * pageSize + ((start + i) % pageSize)) * 2 * kvHeads * headDim;
    });
    for (let h = 0; h < heads; h++) {
      const group = Math.floor(h / (heads / kvHeads)) * headDim;
      const at = r * stride + h * headDim;
      const scores = keys.map((key) => {
        let score = 0;
        for (let c = 0; c < headDim; c++) score += q![at + c]! * cache[key + group + c]!;
        return score * GQA_SCALE;
      });
      const top = Math.max(...scores);
      const exps = scores.map((score) => Math.exp(score - top));
      const sink = shape.sinks === true ? Math.exp(inputs.sinks![h]! - top) : 0;
      const total = exps.reduce((a, b) => a + b, sink);
      const sum = new Float64Array(headDim);
      keys.forEach((key, i) => {
        const value = key + kvHeads * headDim + group;
        for (let c = 0; c < headDim; c++) sum[c]! += exps[i]! * cache[value + c]!;
      });
      out.set(
        sum.map((value) => value / total),
        at,
      );
    }
  }
  return out;
}

/** `[groups, 2]`: first row, row count of neighbours in one sequence. */
export function gqaGroups({ sequences }: GqaShape): Uint32Array<ArrayBuffer> {
  const groups: number[] = [];
  let row = 0;
  for (const { rows } of sequences) {
    for (let r = 0; r < rows; r += SHARED_ROWS) {
      groups.push(row + r, Math.min(SHARED_ROWS, rows - r));
    }
    row += rows;
  }
  return Uint32Array.from(groups);
}

/** The options that both kernels take. */
export function gqaOptions(shape: GqaShape, tensors: Readonly<Record<string, Tensor>>) {
  const { heads, kvHeads, headDim, pageSize, splitLength, dtype, window } = shape;
  return {
    query: tensors.q!,
    queryStride: gqaColumns(shape) + GQA_PAD,
    cache: tensors.cache!,
    cacheDtype: dtype,
    rows: tensors.rows!,
    pageTables: tensors.page_tables!,
    out: tensors.out!,
    outStride: gqaColumns(shape) + GQA_PAD,
    heads,
    kvHeads,
    headDim,
    pageSize,
    splitLength,
    scale: GQA_SCALE,
    window,
    sinks: shape.sinks === true ? tensors.sinks! : undefined,
  };
}
