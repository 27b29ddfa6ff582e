/**
 * Sequences in a paged cache that the GPU fills, attention over them in f64, and the ways that its
 * kernels may be shared out.
 *
 * @module
 */
import type { ExchangeOptions } from "../../kernels/attention/exchange.ts";
import { type Tensor, whole } from "../../src/gpu/tensor.ts";
import { attentionTuning, TUNING_CHOICES } from "../../src/gpu/tuning.ts";
import { device, upload } from "../../test/support/devices/gpu.ts";
import { scaled } from "./gpu_bench.ts";

export const PAGE_SIZE = 64;
/** No neighbours in a sequence are neighbours in the cache. */
const PAGE_STEP = 7919;

/** Rows `[first, first + rows)` of each of `count` sequences. */
export interface Sequences {
  readonly count: number;
  readonly first: number;
  readonly rows: number;
}

export interface PagedRows {
  readonly rowCount: number;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  readonly pageTables: Tensor;
  /** Where a key of a sequence is in the cache. */
  slot(sequence: number, key: number): number;
  destroy(): void;
}

const pagesOf = ({ first, rows }: Sequences) => Math.ceil((first + rows) / PAGE_SIZE);

/** Slots of a cache that has room for these sequences. */
export const slotsFor = (sequences: Sequences): number =>
  sequences.count * pagesOf(sequences) * PAGE_SIZE;

export function pagedRows(sequences: Sequences): PagedRows {
  const { count, first, rows } = sequences;
  const pages = pagesOf(sequences);
  const all = count * pages;
  const page = (index: number) => (index * PAGE_STEP) % all;
  const words = new Uint32Array(count * rows * 4);
  for (let s = 0; s < count; s++) {
    for (let r = 0; r < rows; r++) words.set([0, first + r, 0, s * pages], 4 * (s * rows + r));
  }
  const table = Uint32Array.from({ length: all }, (_, i) => page(i));
  const tensors = [whole(upload(words)), whole(upload(table))] as const;
  return {
    rowCount: count * rows,
    rows: tensors[0],
    pageTables: tensors[1],
    slot(sequence, key) {
      const at = sequence * pages + Math.floor(key / PAGE_SIZE);
      return table[at]! * PAGE_SIZE + (key % PAGE_SIZE);
    },
    destroy() {
      for (const { buffer } of tensors) buffer.destroy();
    },
  };
}

/** How the work of a kernel is shared out. */
export interface Sharing {
  readonly name: string;
  readonly options: ExchangeOptions;
}

/** What a tuning may choose, and how many heads there are to share what a workgroup reads. */
export interface HeadChoice {
  readonly field: "rowHeads" | "promptHeads";
  readonly most: number;
}

/**
 * As the adapter's tuning says, in both ways that values are exchanged where there are two; then with
 * other numbers of heads a workgroup.
 */
export function sharings(subgroupSize: number | undefined, choice?: HeadChoice): Sharing[] {
  const tuning = attentionTuning(device.adapterInfo);
  const byMemory: Sharing = { name: "by memory", options: { tuning } };
  const bySubgroups: Sharing = { name: "by subgroups", options: { tuning, subgroupSize } };
  const own = subgroupSize === undefined ? [byMemory] : [bySubgroups, byMemory];
  if (choice === undefined) return own;
  const { field, most } = choice;
  const [{ name, options }] = own as [Sharing, ...Sharing[]];
  const others = TUNING_CHOICES[field].filter(
    (heads) => heads <= most && heads !== Math.min(tuning[field], most),
  );
  return [
    ...own,
    ...scaled(others, others.slice(0, 1)).map((heads) => ({
      name: `${name}, ${heads} heads each`,
      options: { ...options, tuning: { ...tuning, [field]: heads } },
    })),
  ];
}

/** Keys and values of one head, `[keys, width]` each. */
export interface HeadEntries {
  readonly keys: number;
  readonly width: number;
  key(key: number, c: number): number;
  readonly valueWidth: number;
  value(key: number, c: number): number;
}

/** Softmax of the scores of all keys, times their values. */
export function attend(query: Float64Array, entries: HeadEntries, scale: number): Float64Array {
  const { keys, width, valueWidth } = entries;
  const scores = Float64Array.from({ length: keys }, (_, key) => {
    let score = 0;
    for (let c = 0; c < width; c++) score += query[c]! * entries.key(key, c);
    return score * scale;
  });
  const top = scores.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const weights = scores.map((score) => Math.exp(score - top));
  const total = weights.reduce((a, b) => a + b, 0);
  const out = new Float64Array(valueWidth);
  weights.forEach((weight, key) => {
    for (let c = 0; c < valueWidth; c++) out[c]! += (weight / total) * entries.value(key, c);
  });
  return out;
}

/** A rope part turned by the cosines and sines of a position's row of the table. */
export function turned(part: Float64Array, turn: (i: number) => number): Float64Array {
  return part.map((_, i) => {
    const even = i - (i % 2);
    const [cos, sin] = [turn(even), turn(even + 1)];
    return i === even
      ? part[even]! * cos - part[even + 1]! * sin
      : part[even]! * sin + part[even + 1]! * cos;
  });
}
