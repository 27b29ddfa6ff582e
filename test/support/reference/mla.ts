/**
 * Both forms of latent attention on small random data: a paged cache, its rows, and the host's part
 * (up-projections) in plain loops.
 *
 * @module
 */
import { expect } from "vitest";
import { mlaDecode } from "../../../kernels/attention/mla/mla_decode.ts";
import { mlaPrefill } from "../../../kernels/attention/mla/mla_prefill.ts";
import { mlaGather } from "../../../kernels/cache/mla_gather.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { type Tensor, whole } from "../../../src/gpu/tensor.ts";
import { ropeTable } from "../../../src/layers/attention/rope_table.ts";
import { device, download, upload } from "../devices/gpu.ts";

export interface Shape {
  readonly heads: number;
  readonly latent: number;
  readonly nope: number;
  readonly rope: number;
  readonly value: number;
}

export const SMALL: Shape = { heads: 3, latent: 20, nope: 16, rope: 8, value: 12 };

/** One row of a step. */
export interface Row {
  readonly sequence: number;
  readonly position: number;
}

/** Entries of some sequences in a paged f32 cache, and the pages' order. */
export interface Cache {
  readonly tensor: Tensor;
  readonly pageSize: number;
  readonly tables: readonly (readonly number[])[];
}

export const tensor = (data: ArrayBufferView) => whole(upload(data));
export const blank = (length: number) => tensor(new Float32Array(length).fill(Number.NaN));
export const randoms = (random: () => number, length: number) =>
  Float32Array.from({ length }, () => random() * 4 - 2);

export function shuffled(count: number, random: () => number): number[] {
  const pages = Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [pages[i], pages[j]] = [pages[j]!, pages[i]!];
  }
  return pages;
}

export function fillCache(
  sequences: readonly Float32Array[],
  width: number,
  options: { readonly pageSize: number; readonly random: () => number },
): Cache {
  const { pageSize, random } = options;
  const counts = sequences.map((entries) => Math.ceil(entries.length / width / pageSize));
  const order = shuffled(
    counts.reduce((a, b) => a + b, 0),
    random,
  );
  const cache = new Float32Array(order.length * pageSize * width).fill(Number.NaN);
  const tables = counts.map((count) => order.splice(0, count));
  sequences.forEach((entries, s) => {
    for (let key = 0; key * width < entries.length; key++) {
      const slot = tables[s]![Math.floor(key / pageSize)]! * pageSize + (key % pageSize);
      cache.set(entries.subarray(key * width, (key + 1) * width), slot * width);
    }
  });
  return { tensor: tensor(cache), pageSize, tables };
}

export const slotOf = ({ tables, pageSize }: Cache, { sequence, position }: Row) =>
  tables[sequence]![Math.floor(position / pageSize)]! * pageSize + (position % pageSize);

/** The words of `rows` and of `page_tables`. */
export function describeRows(cache: Cache, rows: readonly Row[]) {
  const firsts: number[] = [];
  const pages: number[] = [];
  for (const table of cache.tables) {
    firsts.push(pages.length);
    pages.push(...table);
  }
  const words = rows.flatMap((row) => [0, row.position, slotOf(cache, row), firsts[row.sequence]!]);
  return { rows: tensor(Uint32Array.from(words)), pageTables: tensor(Uint32Array.from(pages)) };
}

export async function runAll(record: (recorder: Recorder) => () => void): Promise<void> {
  const recorder = new Recorder(device, { maxLaunches: 64 });
  const launch = record(recorder);
  await recorder.pipelines.ready();
  launch();
  recorder.submit();
  await device.queue.onSubmittedWorkDone();
  recorder.destroy();
}

export const read = async ({ buffer }: Tensor) => new Float32Array(await download(buffer));

export interface Inputs {
  readonly shape: Shape;
  readonly cache: Cache;
  readonly rows: readonly Row[];
  readonly table: Float32Array;
  readonly scale: number;
  readonly splitLength: number;
}

/** `[rows, heads * latent]` of the absorbed form. */
export async function decode(
  { shape, cache, rows, table, scale, splitLength }: Inputs,
  query: Float32Array,
  absorbed: Float32Array,
): Promise<Float32Array> {
  const { heads, latent, nope, rope } = shape;
  const splits = Math.ceil((Math.max(...rows.map((row) => row.position)) + 1) / splitLength);
  const out = blank(rows.length * heads * latent);
  await runAll((recorder) => {
    const launch = mlaDecode(recorder, {
      queryAbsorbed: tensor(absorbed),
      query: tensor(query),
      queryStride: heads * (nope + rope),
      cache: cache.tensor,
      cacheDtype: "f32",
      ...describeRows(cache, rows),
      ropeTable: tensor(table),
      partials: blank(rows.length * splits * heads * (2 + latent)),
      out,
      heads,
      latent,
      rope,
      nope,
      pageSize: cache.pageSize,
      splitLength,
      scale,
    });
    return () => launch(rows.length, splits);
  });
  return await read(out);
}

/** Per head `W_UK [nope, latent]`, then `W_UV [value, latent]`. */
export function expand(
  { heads, latent, nope, rope, value }: Shape,
  up: Float32Array,
  entries: Float32Array,
) {
  const keys = entries.length / (latent + rope);
  const expanded = new Float32Array(keys * heads * (nope + value));
  for (let key = 0; key < keys; key++) {
    for (let n = 0; n < heads * (nope + value); n++) {
      let total = 0;
      for (let c = 0; c < latent; c++) {
        total += up[n * latent + c]! * entries[key * (latent + rope) + c]!;
      }
      expanded[key * heads * (nope + value) + n] = total;
    }
  }
  return expanded;
}

/** Row tiles and passes of one sequence, cut at the given places. */
export interface Cuts {
  /** Rows of the items, first row first. */
  readonly tiles: readonly number[];
  /** Keys of the passes; all but the last are multiples of the split length. */
  readonly passes: readonly number[];
}

/** `[rows, heads * value]` of the expanded form; `rows` are consecutive, of sequence 0. */
export async function prefill(
  { shape, cache, rows, table, scale, splitLength }: Inputs,
  { query, entries, up }: Readonly<Record<"query" | "entries" | "up", Float32Array>>,
  { tiles, passes }: Cuts,
): Promise<Float32Array> {
  const { heads, latent, nope, rope, value } = shape;
  const capacity = Math.max(...passes);
  const out = blank(rows.length * heads * value);
  const state = blank(rows.length * heads * 2);
  const { rows: rowWords } = describeRows(cache, rows);
  const width = latent + rope;
  let first = 0;
  for (const [p, count] of passes.entries()) {
    const items: number[] = [];
    let row = 0;
    for (const tile of tiles) {
      const last = p === passes.length - 1 ? 1 : 0;
      items.push(row, tile, 0, first, count, p === 0 ? 1 : 0, last, 0);
      row += tile;
    }
    const slots = Array.from({ length: count }, (_, i) =>
      slotOf(cache, { sequence: 0, position: first + i }),
    );
    const latents = blank(capacity * latent);
    const ropes = blank(capacity * rope);
    const pass = entries.subarray(first * width, (first + count) * width);
    await runAll((recorder) => {
      const gather = mlaGather(recorder, {
        cache: cache.tensor,
        cacheDtype: "f32",
        keySlots: tensor(Uint32Array.from(slots)),
        latents,
        ropes,
        latent,
        rope,
      });
      const attend = mlaPrefill(recorder, {
        query: tensor(query),
        queryStride: heads * (nope + rope),
        keyValues: tensor(expand(shape, up, pass)),
        ropes,
        items: tensor(Uint32Array.from(items)),
        rows: rowWords,
        ropeTable: tensor(table),
        state,
        out,
        outStride: heads * value,
        heads,
        nope,
        rope,
        value,
        splitLength,
        scale,
      });
      return () => {
        gather(count);
        attend(0, tiles.length);
      };
    });
    const gathered = await read(latents);
    for (let key = 0; key < count; key++) {
      const want = pass.subarray(key * width, key * width + latent);
      expect(gathered.subarray(key * latent, (key + 1) * latent)).toEqual(want);
    }
    first += count;
  }
  return await read(out);
}

/** Queries times W_UK, per head. */
export function absorb(
  { heads, latent, nope, rope, value }: Shape,
  up: Float32Array,
  q: Float32Array,
) {
  const rows = q.length / (heads * (nope + rope));
  const absorbed = new Float32Array(rows * heads * latent);
  for (let rh = 0; rh < rows * heads; rh++) {
    const h = rh % heads;
    for (let c = 0; c < latent; c++) {
      let total = 0;
      for (let n = 0; n < nope; n++) {
        total += q[rh * (nope + rope) + n]! * up[(h * (nope + value) + n) * latent + c]!;
      }
      absorbed[rh * latent + c] = total;
    }
  }
  return absorbed;
}

/** Attended latents times W_UV, per head. */
export function project({ heads, latent, nope, value }: Shape, up: Float32Array, o: Float32Array) {
  const rows = o.length / (heads * latent);
  const out = new Float32Array(rows * heads * value);
  for (let rh = 0; rh < rows * heads; rh++) {
    const h = rh % heads;
    for (let v = 0; v < value; v++) {
      let total = 0;
      for (let c = 0; c < latent; c++) {
        total += o[rh * latent + c]! * up[(h * (nope + value) + nope + v) * latent + c]!;
      }
      out[rh * value + v] = total;
    }
  }
  return out;
}

/** Random cuts of `total` into pieces: multiples of `unit` (the last one aside), at most `limit`. */
export function cut(total: number, options: { unit: number; limit: number; random: () => number }) {
  const { unit, limit, random } = options;
  const pieces: number[] = [];
  for (let left = total; left > 0; left -= pieces.at(-1)!) {
    pieces.push(Math.min(left, unit * (1 + Math.floor((random() * limit) / unit))));
  }
  return pieces;
}

export function worst(got: Float32Array, want: ArrayLike<number>): number {
  let largest = 0;
  let error = 0;
  for (let i = 0; i < want.length; i++) {
    largest = Math.max(largest, Math.abs(want[i]!));
    const difference = Math.abs(got[i]! - want[i]!);
    error = difference <= error ? error : Number.isNaN(difference) ? Infinity : difference;
  }
  return error / largest;
}

/** One sequence of `keys` entries whose last `rowCount` positions are rows. */
export function example(keys: number, rowCount: number, random: () => number) {
  const { heads, latent, nope, rope, value } = SMALL;
  const entries = randoms(random, keys * (latent + rope));
  const up = randoms(random, heads * (nope + value) * latent).map((w) => w / 8);
  const query = randoms(random, rowCount * heads * (nope + rope));
  const rows = Array.from({ length: rowCount }, (_, i) => ({
    sequence: 0,
    position: keys - rowCount + i,
  }));
  const table = ropeTable({ theta: 10000, dim: rope, positions: keys });
  const cache = fillCache([entries], latent + rope, { pageSize: 16, random });
  return { entries, up, query, rows, inputs: { shape: SMALL, cache, rows, table, scale: 0.2 } };
}
