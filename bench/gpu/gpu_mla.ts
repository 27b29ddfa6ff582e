/**
 * Latent attention: generated rows over the cache in the absorbed form, prompt rows over expanded
 * keys and values, at the sizes of the large models.
 *
 * @module
 */
import { afterAll, describe, test } from "vitest";
import type { ExchangeOptions } from "../../kernels/attention/exchange.ts";
import { mlaDecode } from "../../kernels/attention/mla/mla_decode.ts";
import { mlaPrefill, PREFILL_ROW_TILE } from "../../kernels/attention/mla/mla_prefill.ts";
import { decodeBf16 } from "../../kernels/cache/host_cache.ts";
import { decodeFp8Latents } from "../../kernels/cache/host_fp8.ts";
import { mlaEntryBytes } from "../../kernels/cache/mla_write.ts";
import { allocateTensor, whole } from "../../src/gpu/tensor.ts";
import { device, upload } from "../../test/support/devices/gpu.ts";
import {
  attend,
  PAGE_SIZE,
  pagedRows,
  type Sequences,
  sharings,
  slotsFor,
  turned,
} from "./gpu_attention_data.ts";
import {
  bounds,
  type Candidate,
  compare,
  expectNear,
  floatsOf,
  Report,
  SameBits,
  scaled,
  TIMEOUT,
  WORK_HEADER,
  workCells,
} from "./gpu_bench.ts";
import { type Fill, makeTensor, WORDS } from "./gpu_data.ts";

const { latent, rope, nope, value } = scaled(
  { latent: 512, rope: 64, nope: 128, value: 128 },
  { latent: 128, rope: 64, nope: 32, value: 32 },
);
const HEADS = scaled([16, 128], [16]);
const BATCHES = scaled([1, 8, 32], [1, 4]);
const CONTEXTS = scaled([1024, 8192, 32_768], [256, 2100]);
const DTYPES = ["bf16", "fp8_e4m3"] as const;
type Dtype = (typeof DTYPES)[number];
/** Keys of a split: what models with few heads take, and those with many. */
const SPLITS = [256, 2048];
/** Numbers of a latent for all heads, from which on a model has long splits. */
const WIDE_ATTENTION = 16_384;
const SCALE = 1 / Math.sqrt(128 + 64);
/** Sums over tens of thousands of keys in f32, of values that nearly cancel. */
const TOLERANCE = 2e-4;
const QUERY = nope + rope;
const MOST_BYTES = device.limits.maxStorageBufferBindingSize;

/** Words of an entry: codes, scales and the rope part in BF16; or BF16 all of it. */
function entryFills(dtype: Dtype): { readonly words: number; readonly fills: readonly Fill[] } {
  const words = mlaEntryBytes(dtype, latent, rope) / 4;
  if (dtype === "bf16") return { words, fills: [{ kind: WORDS.bf16 }] };
  const codes = latent / 4;
  const scales = codes + Math.ceil(latent / 128);
  const part = (first: number, end: number) => ({ period: words, first, end });
  return {
    words,
    fills: [
      { kind: WORDS.fp8, places: part(0, codes) },
      { kind: WORDS.nearOne, places: part(codes, scales) },
      { kind: WORDS.bf16, places: part(scales, words) },
    ],
  };
}

async function decodeCase(
  report: Report,
  { heads, dtype }: { readonly heads: number; readonly dtype: Dtype },
  sequences: Sequences,
): Promise<void> {
  const known = await bounds();
  const { count, first } = sequences;
  const context = first + 1;
  const name = `${heads} heads, ${count} x ${context} keys, ${dtype}`;
  const entry = entryFills(dtype);
  const most = Math.max(
    slotsFor(sequences) * entry.words * 4,
    4 * count * Math.ceil(context / SPLITS[0]!) * heads * (2 + latent),
  );
  if (most > MOST_BYTES) {
    report.line([name, "", `needs ${(most / 2 ** 20).toFixed(0)} MiB in a binding`]);
    return;
  }
  const paged = pagedRows(sequences);
  const cache = await makeTensor("cache", slotsFor(sequences) * entry.words, ...entry.fills);
  const absorbed = await makeTensor("absorbed", count * heads * latent, { kind: WORDS.f32 });
  const query = await makeTensor("query", count * heads * QUERY, { kind: WORDS.f32 });
  const table = await makeTensor("rope table", context * rope, { kind: WORDS.f32 });
  const out = allocateTensor(device, count * heads * latent * 4, "attention");

  const bind = (splitLength: number, options: ExchangeOptions): Candidate["bind"] => {
    const splits = Math.ceil(context / splitLength);
    return (recorder, allocate) => {
      const records = splits > 1 ? count * splits * heads : 0;
      const partials = allocate(records * (2 + latent) * 4, "partials");
      const launch = mlaDecode(recorder, {
        ...{ queryAbsorbed: absorbed.tensor, query: query.tensor, queryStride: heads * QUERY },
        ...{ cache: cache.tensor, cacheDtype: dtype, ropeTable: table.tensor, partials, out },
        ...{ rows: paged.rows, pageTables: paged.pageTables, pageSize: PAGE_SIZE },
        ...{ heads, latent, rope, nope, splitLength, scale: SCALE, ...options },
      });
      return [() => launch(count, splits)];
    };
  };
  const candidates = SPLITS.flatMap((splitLength, i) => {
    // Other numbers of heads are tried with the splits that such a model takes.
    const isOwn = i === (heads * latent >= WIDE_ATTENTION ? 1 : 0);
    const choice = { field: "rowHeads", most: heads } as const;
    const split = `splits of ${splitLength}`;
    return sharings(known.layout.subgroupSize, isOwn ? choice : undefined).map(
      ({ name, options }) => ({
        ...{ name: `${split}, ${name}`, numericClass: split, bind: bind(splitLength, options) },
      }),
    );
  });

  const want = (row: number, head: number) => {
    const at = (row * heads + head) * QUERY + nope;
    const part = Float64Array.from({ length: rope }, (_, i) => query.float(at + i));
    const turn = (i: number) => table.float(first * rope + i);
    const asked = new Float64Array(latent + rope);
    for (let c = 0; c < latent; c++) asked[c] = absorbed.float((row * heads + head) * latent + c);
    asked.set(turned(part, turn), latent);
    const words = new Uint32Array(context * entry.words);
    for (let key = 0; key < context; key++) {
      const slot = paged.slot(row, key) * entry.words;
      for (let w = 0; w < entry.words; w++) words[key * entry.words + w] = cache.word(slot + w);
    }
    const numbers =
      dtype === "bf16" ? decodeBf16(words) : decodeFp8Latents(words, { latent, rope }, dtype);
    const width = latent + rope;
    const at0 = (key: number, c: number) => numbers[key * width + c]!;
    return attend(asked, { keys: context, width, key: at0, valueWidth: latent, value: at0 }, SCALE);
  };
  const [row, head] = [count - 1, heads - 1];
  const wanted = want(row, head);
  const sameBits = new SameBits();
  const pairs = count * context;
  const work = {
    bytes: pairs * entry.words * 4 + 4 * count * heads * (2 * latent + QUERY),
    flops: 2 * pairs * heads * (2 * latent + rope),
  };
  await compare(report, candidates, {
    out,
    async check(candidate) {
      const got = await floatsOf(out, 0, count * heads * latent);
      const own = got.subarray((row * heads + head) * latent);
      expectNear(own, wanted, { tolerance: TOLERANCE, where: `${name}, ${candidate.name}` });
      sameBits.expect(candidate, got);
    },
    cells: (form, seconds) => [name, form, ...workCells(seconds, work, known)],
  });
  paged.destroy();
  for (const { buffer } of [cache.tensor, absorbed.tensor, query.tensor, table.tensor, out]) {
    buffer.destroy();
  }
}

/** Prompt rows and the keys before them. */
const PREFILLS: readonly Sequences[] = scaled(
  [
    { count: 1, first: 0, rows: 1024 },
    { count: 1, first: 3072, rows: 1024 },
    { count: 1, first: 7680, rows: 512 },
  ],
  [{ count: 1, first: 100, rows: 64 }],
);
const PREFILL_SPLIT = 2048;

async function prefillCase(report: Report, heads: number, sequences: Sequences): Promise<void> {
  const known = await bounds();
  const { first, rows } = sequences;
  const keys = first + rows;
  const name = `${heads} heads, ${rows} rows behind ${first}`;
  const width = nope + value;
  const most = 4 * Math.max(keys * heads * width, rows * heads * (QUERY + 2 + value));
  if (most > MOST_BYTES) {
    report.line([name, "", `needs ${(most / 2 ** 20).toFixed(0)} MiB in a binding`]);
    return;
  }
  const paged = pagedRows(sequences);
  const query = await makeTensor("query", rows * heads * QUERY, { kind: WORDS.f32 });
  const keyValues = await makeTensor("keys and values", keys * heads * width, { kind: WORDS.f32 });
  const ropes = await makeTensor("rope parts", keys * rope, { kind: WORDS.f32 });
  const table = await makeTensor("rope table", keys * rope, { kind: WORDS.f32 });
  const state = allocateTensor(device, rows * heads * 2 * 4, "state");
  const out = allocateTensor(device, rows * heads * value * 4, "attention");
  const list: number[] = [];
  for (let r = 0; r < rows; r += PREFILL_ROW_TILE) {
    list.push(r, Math.min(PREFILL_ROW_TILE, rows - r), 0, 0, keys, 1, 1, 0);
  }
  const items = whole(upload(Uint32Array.from(list)));
  const candidates = sharings(known.layout.subgroupSize).map(
    ({ name, options }): Candidate => ({
      name,
      numericClass: "fma128",
      bind(recorder) {
        const launch = mlaPrefill(recorder, {
          ...{ query: query.tensor, queryStride: heads * QUERY, keyValues: keyValues.tensor },
          ...{ ropes: ropes.tensor, items, rows: paged.rows, ropeTable: table.tensor, state, out },
          ...{ outStride: heads * value, heads, nope, rope, value, splitLength: PREFILL_SPLIT },
          ...{ scale: SCALE, ...options },
        });
        return [() => launch(0, list.length / 8)];
      },
    }),
  );
  const want = (row: number, head: number) => {
    const at = (row * heads + head) * QUERY;
    const asked = Float64Array.from({ length: QUERY }, (_, i) => query.float(at + i));
    const turn = (i: number) => table.float((first + row) * rope + i);
    asked.set(turned(asked.slice(nope), turn), nope);
    const entry = (key: number) => (key * heads + head) * width;
    return attend(
      asked,
      {
        ...{ keys: first + row + 1, width: QUERY, valueWidth: value },
        key: (key, c) =>
          c < nope ? keyValues.float(entry(key) + c) : ropes.float(key * rope + c - nope),
        value: (key, c) => keyValues.float(entry(key) + nope + c),
      },
      SCALE,
    );
  };
  const sampled = [
    [0, 0],
    [rows - 1, heads - 1],
  ] as const;
  const wanted = sampled.map(([row, head]) => want(row, head));
  const sameBits = new SameBits();
  const pairs = rows * first + (rows * (rows + 1)) / 2;
  const work = {
    bytes: 4 * (keys * (heads * width + rope) + rows * heads * (QUERY + value)),
    flops: 2 * pairs * heads * (QUERY + value),
  };
  await compare(report, candidates, {
    out,
    async check(candidate) {
      const got = await floatsOf(out, 0, rows * heads * value);
      for (const [i, [row, head]] of sampled.entries()) {
        const own = got.subarray((row * heads + head) * value);
        const where = `${name}, ${candidate.name}, row ${row}`;
        expectNear(own, wanted[i]!, { tolerance: TOLERANCE, where });
      }
      sameBits.expect(candidate, got);
    },
    cells: (form, seconds) => [name, form, ...workCells(seconds, work, known)],
  });
  paged.destroy();
  const made = [query, keyValues, ropes, table].map(({ tensor }) => tensor);
  for (const { buffer } of [...made, state, out, items]) buffer.destroy();
}

export function mlaSections(): void {
  describe("latent decode", () => {
    const title = "Absorbed latent attention of generated rows";
    const report = new Report(title, ["rows", "form", ...WORK_HEADER]);
    afterAll(() => report.finish());
    for (const heads of HEADS) {
      for (const dtype of DTYPES) {
        for (const count of BATCHES) {
          const name = `${heads} heads, ${count} sequences, ${dtype}`;
          const cases = CONTEXTS.map((context) => ({ count, first: context - 1, rows: 1 }));
          const run = async () => {
            for (const one of cases) await decodeCase(report, { heads, dtype }, one);
          };
          test(name, run, TIMEOUT);
        }
      }
    }
  });

  describe("latent prefill", () => {
    const title = "Expanded latent attention of prompt rows";
    const report = new Report(title, ["rows", "form", ...WORK_HEADER]);
    afterAll(() => report.finish());
    for (const heads of HEADS) {
      for (const sequences of PREFILLS) {
        const name = `${heads} heads, ${sequences.rows} rows behind ${sequences.first}`;
        test(name, () => prefillCase(report, heads, sequences), TIMEOUT);
      }
    }
  });
}
