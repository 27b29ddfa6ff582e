/**
 * Generated rows of sequences in a paged cache, as the checks of absorbed latent attention have them.
 *
 * @module
 */
import type { CacheDtype } from "../../cache/cache_kernel.ts";
import { bf16Words } from "../../cache/host_cache.ts";
import { fp8Latents, isFp8Dtype } from "../../cache/host_fp8.ts";
import type { HostArrays } from "../../check.ts";
import { SHARED_ROWS } from "../split_launch.ts";

export interface MlaRowsShape {
  /** Keys each row sees. */
  readonly lengths: readonly number[];
  readonly heads: number;
  readonly latent: number;
  readonly rope: number;
  readonly nope: number;
  readonly pageSize: number;
  readonly splitLength: number;
  readonly dtype: CacheDtype;
}

export const SCALE = 0.3;
const PAD = 4;
export const queryStride = ({ heads, nope, rope }: MlaRowsShape) => heads * (nope + rope) + PAD;
const pagesOf = (length: number, { pageSize }: MlaRowsShape) => Math.ceil(length / pageSize);
export const splitsOf = ({ lengths, splitLength }: MlaRowsShape) =>
  Math.ceil(Math.max(...lengths) / splitLength);

/** Rows that follow each other in one sequence: each sees a key more than the one before. */
export function runsOf({
  lengths,
}: MlaRowsShape): { readonly first: number; readonly rows: number }[] {
  const runs: { first: number; rows: number }[] = [];
  lengths.forEach((length, r) => {
    if (r > 0 && length === lengths[r - 1]! + 1) runs.at(-1)!.rows += 1;
    else runs.push({ first: r, rows: 1 });
  });
  return runs;
}

/** Keys of the sequence that a run is the end of. */
export const keysOf = (
  { lengths }: MlaRowsShape,
  { first, rows }: { first: number; rows: number },
) => lengths[first + rows - 1]!;
export const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);

export function groupsOf(shape: MlaRowsShape): Uint32Array<ArrayBuffer> {
  const groups = new Uint32Array(2 * shape.lengths.length);
  let at = 0;
  for (const { first, rows } of runsOf(shape)) {
    for (let r = 0; r < rows; r += SHARED_ROWS) {
      groups.set([first + r, Math.min(SHARED_ROWS, rows - r)], at);
      at += 2;
    }
  }
  return groups.slice(0, at);
}

export const MLA_ROWS_CASES: readonly MlaRowsShape[] = [
  // A tile and a bit; one key; three splits, the last one short. Two rows
  // and six that follow each other.
  {
    lengths: [150, 1, 2, 525, 526, 527, 528, 529, 530],
    heads: 3,
    latent: 20,
    rope: 8,
    nope: 2,
    pageSize: 3,
    splitLength: 256,
    dtype: "bf16",
  },
  // One split: written without a reduce.
  {
    lengths: [128, 129, 255],
    heads: 5,
    latent: 24,
    rope: 8,
    nope: 1,
    pageSize: 1,
    splitLength: 256,
    dtype: "f32",
  },
  // Runs of 128 and of 12, each with a scale.
  {
    lengths: [150, 1, 300],
    heads: 3,
    latent: 140,
    rope: 8,
    nope: 2,
    pageSize: 3,
    splitLength: 256,
    dtype: "fp8_e4m3",
  },
  {
    lengths: [140, 9],
    heads: 5,
    latent: 24,
    rope: 4,
    nope: 1,
    pageSize: 16,
    splitLength: 128,
    dtype: "fp8_e5m2",
  },
  // A head more than a workgroup has.
  {
    lengths: [5, 127, 9],
    heads: 9,
    latent: 24,
    rope: 4,
    nope: 1,
    pageSize: 16,
    splitLength: 128,
    dtype: "f32",
  },
  {
    lengths: [300, 9],
    heads: 16,
    latent: 512,
    rope: 64,
    nope: 3,
    pageSize: 16,
    splitLength: 256,
    dtype: "bf16",
  },
  {
    lengths: [500, 500, 500, 500, 500, 500, 500, 500],
    heads: 4,
    latent: 128,
    rope: 16,
    nope: 32,
    pageSize: 64,
    splitLength: 2048,
    dtype: "bf16",
  },
];

/** Entries that a row must not see, and elements between rows, are NaN. */
export function mlaRowsInputs(shape: MlaRowsShape, random: () => number): HostArrays {
  const { lengths, heads, latent, rope, nope, pageSize, dtype } = shape;
  const rows = lengths.length;
  const width = latent + rope;
  const runs = runsOf(shape);
  const pages = sum(runs.map((run) => pagesOf(keysOf(shape, run), shape)));
  const wide = (length: number) => Float32Array.from({ length }, () => random() * 4 - 2);
  // Page p of the cache belongs to the p-th entry from the end; one entry in front is unused.
  const page_tables = Uint32Array.from({ length: pages + 1 }, (_, i) => pages - i);
  const table = new Uint32Array(rows * 4);
  let first = 1;
  for (const run of runs) {
    for (let r = run.first; r < run.first + run.rows; r++) {
      table.set([5, lengths[r]! - 1, 6, first], r * 4);
    }
    first += pagesOf(keysOf(shape, run), shape);
  }
  const stride = queryStride(shape);
  const q = new Float32Array(rows * stride).fill(Number.NaN);
  for (let r = 0; r < rows; r++) q.set(wide(heads * (nope + rope)), r * stride);
  // What a row must not see is NaN.
  const entries = new Float32Array((pages + 1) * pageSize * width).fill(Number.NaN);
  for (const run of runs) {
    for (let key = 0; key < keysOf(shape, run); key++) {
      const page = page_tables[table[run.first * 4 + 3]! + Math.floor(key / pageSize)]!;
      entries.set(wide(width), (page * pageSize + (key % pageSize)) * width);
    }
  }
  return {
    q_absorbed: wide(rows * heads * latent),
    q,
    cache: isFp8Dtype(dtype)
      ? fp8Latents(entries, shape, dtype)
      : dtype === "bf16"
        ? bf16Words(entries)
        : entries,
    rows: table,
    page_tables,
    groups: groupsOf(shape),
    // A record that is read without being written shows.
    partials: new Float32Array(rows * splitsOf(shape) * heads * (2 + latent)).fill(Number.NaN),
    rope_table: Float32Array.from({ length: Math.max(...lengths) * rope }, () => random() * 2 - 1),
  };
}
