/**
 * Grouped-query attention of generated rows and of prompt rows over a BF16 cache.
 *
 * @module
 */
import { afterAll, describe, test } from "vitest";
import { gqaDecode } from "../../kernels/attention/gqa/gqa_decode.ts";
import { GQA_PREFILL_ROW_TILE, gqaPrefill } from "../../kernels/attention/gqa/gqa_prefill.ts";
import { allocateTensor, type Tensor, whole } from "../../src/gpu/tensor.ts";
import { device, upload } from "../../test/support/devices/gpu.ts";
import {
  attend,
  type HeadChoice,
  PAGE_SIZE,
  type PagedRows,
  pagedRows,
  type Sequences,
  sharings,
  slotsFor,
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
import { floatOf, type MadeTensor, makeTensor, WORDS } from "./gpu_data.ts";

interface Heads {
  readonly heads: number;
  readonly kvHeads: number;
}

const HEAD_DIM = 128;
/** Of small models, and of those of some billions of weights. */
const HEADS: readonly Heads[] = scaled(
  [
    { heads: 16, kvHeads: 8 },
    { heads: 32, kvHeads: 8 },
  ],
  [{ heads: 8, kvHeads: 4 }],
);
const DECODES: readonly Sequences[] = scaled([1, 8, 32], [1, 4]).flatMap((count) =>
  scaled([1024, 8192, 32_768], [300]).map((keys) => ({ count, first: keys - 1, rows: 1 })),
);
const PREFILLS: readonly Sequences[] = scaled(
  [
    { count: 1, first: 0, rows: 1024 },
    { count: 1, first: 3072, rows: 1024 },
    { count: 1, first: 7680, rows: 512 },
  ],
  [{ count: 1, first: 100, rows: 32 }],
);
const SPLIT_LENGTH = 256;
const SCALE = 1 / Math.sqrt(HEAD_DIM);
/** Sums over tens of thousands of keys in f32, of values that nearly cancel. */
const TOLERANCE = 2e-4;

/** The tensors of a case, as both kernels bind them. */
interface GqaCase extends Heads {
  readonly sequences: Sequences;
  readonly paged: PagedRows;
  readonly query: MadeTensor;
  readonly cache: MadeTensor;
  readonly out: Tensor;
}

const optionsOf = ({ heads, kvHeads, paged, query, cache, out }: GqaCase) => ({
  ...{ query: query.tensor, queryStride: heads * HEAD_DIM, out, outStride: heads * HEAD_DIM },
  ...{ cache: cache.tensor, cacheDtype: "bf16" as const, rows: paged.rows },
  ...{ pageTables: paged.pageTables, pageSize: PAGE_SIZE, heads, kvHeads, headDim: HEAD_DIM },
  ...{ splitLength: SPLIT_LENGTH, scale: SCALE },
});

/** What a head of a row sees, in f64. */
function wantedOf(one: GqaCase, row: number, head: number): Float64Array {
  const { heads, kvHeads, sequences, paged, query, cache } = one;
  const { first, rows } = sequences;
  const at = (row * heads + head) * HEAD_DIM;
  const group = Math.floor(head / (heads / kvHeads)) * HEAD_DIM;
  const number = (key: number, c: number) => {
    const element = paged.slot(Math.floor(row / rows), key) * 2 * kvHeads * HEAD_DIM + c;
    const word = cache.word(Math.floor(element / 2));
    return floatOf(element % 2 === 0 ? word << 16 : word & 0xffff0000);
  };
  return attend(
    Float64Array.from({ length: HEAD_DIM }, (_, c) => query.float(at + c)),
    {
      ...{ keys: first + (row % rows) + 1, width: HEAD_DIM, valueWidth: HEAD_DIM },
      key: (key, c) => number(key, group + c),
      value: (key, c) => number(key, kvHeads * HEAD_DIM + group + c),
    },
    SCALE,
  );
}

async function measureCase(
  report: Report,
  { heads, kvHeads }: Heads,
  sequences: Sequences,
): Promise<void> {
  const known = await bounds();
  const { count, first, rows } = sequences;
  const name = `${heads} heads on ${kvHeads}, ${count} x ${rows} rows behind ${first}`;
  const entryWords = kvHeads * HEAD_DIM;
  const cacheBytes = slotsFor(sequences) * entryWords * 4;
  const splits = Math.ceil((first + rows) / SPLIT_LENGTH);
  const records = rows === 1 ? count * splits * heads : 0;
  if (
    Math.max(cacheBytes, records * (2 + HEAD_DIM) * 4) > device.limits.maxStorageBufferBindingSize
  ) {
    report.line([name, "", `needs ${(cacheBytes / 2 ** 20).toFixed(0)} MiB in a binding`]);
    return;
  }
  const outputs = count * rows * heads * HEAD_DIM;
  const one: GqaCase = {
    ...{ heads, kvHeads, sequences, paged: pagedRows(sequences) },
    query: await makeTensor("query", outputs, { kind: WORDS.f32 }),
    cache: await makeTensor("cache", cacheBytes / 4, { kind: WORDS.bf16 }),
    out: allocateTensor(device, outputs * 4, "attention"),
  };
  const { paged, query, cache, out } = one;
  const items = whole(upload(Uint32Array.from(itemsOf(sequences))));
  const choice: HeadChoice = {
    field: rows > 1 ? "promptHeads" : "rowHeads",
    most: heads / kvHeads,
  };
  const candidates = sharings(known.layout.subgroupSize, choice).map(
    ({ name, options: shared }): Candidate => ({
      name,
      numericClass: "fma128",
      bind(recorder, allocate) {
        const options = { ...optionsOf(one), ...shared };
        if (rows > 1) {
          const launch = gqaPrefill(recorder, { ...options, items });
          return [() => launch(0, itemsOf(sequences).length / 8)];
        }
        const partials = allocate(records * (2 + HEAD_DIM) * 4, "partials");
        const launch = gqaDecode(recorder, { ...options, partials });
        return [() => launch(count, splits)];
      },
    }),
  );
  const sampled = [
    [0, 0],
    [count * rows - 1, heads - 1],
  ] as const;
  const wanted = sampled.map(([row, head]) => wantedOf(one, row, head));
  const sameBits = new SameBits();
  const pairs = count * (rows * first + (rows * (rows + 1)) / 2);
  const work = {
    bytes: count * (first + rows) * entryWords * 4 + 8 * outputs,
    flops: 4 * pairs * heads * HEAD_DIM,
  };
  await compare(report, candidates, {
    out,
    async check(candidate) {
      const got = await floatsOf(out, 0, outputs);
      for (const [i, [row, head]] of sampled.entries()) {
        const own = got.subarray((row * heads + head) * HEAD_DIM);
        const where = `${name}, ${candidate.name}, row ${row}`;
        expectNear(own, wanted[i]!, { tolerance: TOLERANCE, where });
      }
      sameBits.expect(candidate, got);
    },
    cells: (form, seconds) => [name, form, ...workCells(seconds, work, known)],
  });
  paged.destroy();
  for (const { buffer } of [query.tensor, cache.tensor, out, items]) buffer.destroy();
}

/** Items of eight words over the prompt rows. */
function itemsOf({ count, rows }: Sequences): number[] {
  const list: number[] = [];
  for (let s = 0; s < count; s++) {
    for (let r = 0; r < rows; r += GQA_PREFILL_ROW_TILE) {
      list.push(s * rows + r, Math.min(GQA_PREFILL_ROW_TILE, rows - r), 0, 0, 0, 0, 0, 0);
    }
  }
  return list;
}

export function gqaSection(): void {
  describe("grouped-query attention", () => {
    const title = "Grouped-query attention, heads of 128, BF16 cache";
    const report = new Report(title, ["rows", "form", ...WORK_HEADER]);
    afterAll(() => report.finish());
    for (const heads of HEADS) {
      for (const sequences of [...DECODES, ...PREFILLS]) {
        const { count, first, rows } = sequences;
        const name = `${heads.heads} heads, ${count} x ${rows} rows behind ${first}`;
        test(name, () => measureCase(report, heads, sequences), TIMEOUT);
      }
    }
  });
}
