/** Queries and cache entries of any number of rows have the bits of the two launches they replace. */
import { beforeAll, describe, expect, test } from "vitest";
import { mlaProject } from "../../../kernels/cache/mla_project.ts";
import { mlaEntryBytes, mlaWrite } from "../../../kernels/cache/mla_write.ts";
import { randomRows, randomWeight } from "../../../kernels/linear/checks/check_weights.ts";
import { linear } from "../../../kernels/linear/linear.ts";
import { paddedRows } from "../../../kernels/linear/weights/weight_order.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { type Tensor, whole } from "../../../src/gpu/tensor.ts";
import { DEFAULT_TUNING, PLAIN_TUNING, type RowForm } from "../../../src/gpu/tuning.ts";
import { device, download, seeded, smallestCaseOnly, upload } from "../../support/devices/gpu.ts";

const LANES = 8;
const MOST_ROWS = 9;
const ROPE = 8;
const EPS = 1e-6;
const ROW_COUNTS = smallestCaseOnly ? [1, 5] : [1, 2, 3, 4, 5, 8, 9];

const SHAPES = [
  { dtype: "bf16", cacheDtype: "bf16", columns: 205, latent: 20, rounded: false },
  { dtype: "fp8", cacheDtype: "fp8_e4m3", columns: 256, latent: 132, rounded: true },
] as const;
type Shape = (typeof SHAPES)[number];
const OUTPUTS = 44;

/** A weight that no launch reads. */
function spareWeight(rows: number, columns: number, rowForms: readonly RowForm[]) {
  const words = whole(upload(new Uint32Array(64)));
  const tuning = { lanes: LANES, rowForms };
  const sizes = { rows, columns, rowsPadded: paddedRows(rows, { lanes: LANES }) };
  return { ...sizes, dtype: "bf16" as const, lanes: LANES, words, tuning };
}

async function bytesOf({ buffer }: Tensor): Promise<Uint32Array> {
  return new Uint32Array(await download(buffer));
}

describe.each(SHAPES)("$dtype weights, entries in $cacheDtype", (shape) => {
  let run: (rows: number, folded: boolean) => Promise<Uint32Array[]>;
  beforeAll(async () => {
    run = await prepare(shape);
  });

  test.each(ROW_COUNTS)("%i rows", async (rows) => {
    const [query, cache] = await run(rows, true);
    const [wantedQuery, wantedCache] = await run(rows, false);
    expect(query).toEqual(wantedQuery);
    expect(cache).toEqual(wantedCache);
    expect(query!.some((word) => word !== 0)).toBe(true);
    expect(cache!.some((word) => word !== 0)).toBe(true);
  });
});

/** Runs one launch, or two; tells the queries and the cache, which start as zeros. */
async function prepare({ dtype, cacheDtype, columns, latent, rounded }: Shape) {
  const random = seeded(7);
  const numbers = (count: number) => Float32Array.from({ length: count }, () => 0.5 + random());
  const filled = (data: ArrayBufferView) => whole(upload(data));
  const latentOffset = paddedRows(columns, { lanes: LANES });
  const width = latentOffset + latent + ROPE;
  const { words, scales } = randomWeight({ dtype, lanes: LANES, rows: OUTPUTS, columns }, random);
  const weight = {
    ...{
      dtype,
      lanes: LANES,
      rows: OUTPUTS,
      columns,
      rowsPadded: paddedRows(OUTPUTS, { lanes: LANES }),
    },
    ...{ words: filled(words), tuning: PLAIN_TUNING, ...(rounded && { scales: filled(scales) }) },
  };
  const entryWords = mlaEntryBytes(cacheDtype, latent, ROPE) / 4;
  const cache = filled(new Uint32Array(MOST_ROWS * entryWords));
  const query = filled(new Float32Array(MOST_ROWS * OUTPUTS));
  const rowWords = Array.from({ length: MOST_ROWS }, (_, i) => [
    0,
    2 * i + 1,
    MOST_ROWS - 1 - i,
    0,
  ]);
  const entry = {
    a: filled(randomRows({ rows: MOST_ROWS, columns: width, stride: width }, random)),
    ...{ aStride: width, latentOffset, latent, ropeOffset: latentOffset + latent, rope: ROPE },
    rows: filled(Uint32Array.from(rowWords.flat())),
    ropeTable: filled(numbers(2 * MOST_ROWS * ROPE)),
    ...{ cache, cacheDtype, eps: EPS },
  };
  const [queryNorm, latentNorm] = [numbers(columns), numbers(latent)];
  const latentStart = Math.ceil(columns / 4) * 4;
  const norms = new Float32Array(latentStart + latent);
  norms.set(queryNorm);
  norms.set(latentNorm, latentStart);
  const recorder = new Recorder(device, { maxLaunches: 16 });
  const { record } = mlaProject(recorder, {
    ...{ ...entry, weight, norms: filled(norms), latentNorm: latentStart, rounded },
    ...{ query, queryStride: OUTPUTS },
  });
  const queryLatent = filled(new Float32Array(MOST_ROWS * latentStart));
  const write = mlaWrite(recorder, {
    ...{ ...entry, latentWeight: filled(latentNorm) },
    query: {
      ...{ offset: 0, width: columns, weight: filled(queryNorm) },
      ...{ out: queryLatent, outStride: latentStart, quantize: rounded },
    },
  });
  const project = linear(recorder, {
    ...{ x: queryLatent, xStride: latentStart, weight, out: query, outStride: OUTPUTS },
  });
  await recorder.pipelines.ready();
  return async (rows: number, folded: boolean) => {
    for (const { buffer } of [query, cache]) {
      device.queue.writeBuffer(buffer, 0, new Uint32Array(buffer.size / 4));
    }
    if (folded) record(rows);
    else {
      write(rows);
      project(rows);
    }
    recorder.submit();
    return [await bytesOf(query), await bytesOf(cache)];
  };
}

describe("one launch pays", () => {
  const pays = (rows: number, columns: number, forms: readonly RowForm[]) => {
    const recorder = new Recorder(device, { maxLaunches: 16 });
    const weight = spareWeight(rows, columns, forms);
    const spare = weight.words;
    const sizes = { aStride: columns + 16, latentOffset: columns, latent: 8, rope: 8 };
    const launch = mlaProject(recorder, {
      ...{ ...sizes, ropeOffset: columns + 8, a: spare, rows: spare, ropeTable: spare },
      ...{ weight, norms: spare, latentNorm: columns, rounded: false, eps: EPS },
      ...{ query: whole(upload(new Uint32Array(64))), queryStride: rows },
      ...{ cache: whole(upload(new Uint32Array(64))), cacheDtype: "f32" },
    });
    recorder.destroy();
    return launch.pays;
  };

  test("for any number of rows where there are few weights", () => {
    const launch = pays(192, 128, DEFAULT_TUNING.rowForms);
    for (const rows of [0, 1, 2, 8, 16, 64, 500]) expect(launch(rows), `${rows}`).toBe(true);
  });

  test("where there are more, for rows that no other form is through much sooner", () => {
    const launch = pays(3072, 384, DEFAULT_TUNING.rowForms);
    for (const rows of [0, 1, 2, 3, 4]) expect(launch(rows), `${rows}`).toBe(true);
    for (const rows of [8, 16, 32, 64, 500]) expect(launch(rows), `${rows}`).toBe(false);
  });

  test("for a row alone where a workgroup has room for no other", () => {
    const { maxComputeWorkgroupStorageSize: most } = device.limits;
    const columns = Math.floor((0.6 * most) / 4 / 128) * 128;
    const forms: readonly RowForm[] = [
      { tokens: 1, split: 1, workgroup: 8, cost: 1 },
      { tokens: 4, split: 1, workgroup: 8, cost: 1.4 },
    ];
    const launch = pays(3072, columns, forms);
    expect([1, 2, 4].map(launch)).toEqual([true, false, false]);
    expect(() => pays(3072, 2 * columns, forms)).toThrow("no room for");
  });
});
