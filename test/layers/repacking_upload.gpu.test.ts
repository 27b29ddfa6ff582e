import { existsSync, readFileSync } from "node:fs";
import { afterAll, describe, expect, test } from "vitest";
import { packColumnScales } from "../../kernels/linear/weights/column_scales.ts";
import { WEIGHT_BYTES, type WeightDtype } from "../../kernels/linear/weights/layout.ts";
import {
  orderOf,
  scalePlace,
  type WeightOrder,
} from "../../kernels/linear/weights/weight_order.ts";
import type { Destination, WeightChunk } from "../../src/checkpoint/weight_spec.ts";
import { DeviceMemory } from "../../src/gpu/memory.ts";
import { packRows } from "../../src/layers/weights/host_rows.ts";
import { allocateMatrix, type MatrixPlace } from "../../src/layers/weights/matrix_place.ts";
import { RepackingUpload } from "../../src/layers/weights/repacking_upload.ts";
import type { RowSlice } from "../../src/layers/weights/staged_rows.ts";
import { StagedUpload } from "../../src/layers/weights/staged_upload.ts";
import { codeAt, packFile } from "../support/checkpoints/packed_columns.ts";
import { device, download, seeded } from "../support/devices/gpu.ts";

const FILE = "../shared/data/golden/kernels.json";
const absent = !existsSync(FILE);
if (absent) console.warn(`skipped: ${FILE} is not here`);

const memory = new DeviceMemory(device.limits, device);
const staged = new StagedUpload(device);
const repacking = new RepackingUpload(staged, true);
afterAll(() => {
  staged.destroy();
  memory.destroy();
});

interface Size extends WeightOrder {
  readonly dtype: WeightDtype;
  readonly columns: number;
  readonly parts: readonly number[];
}

/** Two places alike: what one way writes is compared with what the other does. */
function places({ dtype, columns, parts, ...order }: Size): [MatrixPlace, MatrixPlace] {
  const encoding = { kind: "plain", dtype: "U8" } as const;
  const format = { dtype, encoding, ...(dtype === "int4" && { groupColumns: 32 as const }) };
  const shape = { format, columns, parts, layout: orderOf(order) };
  const place = () => allocateMatrix(memory, "test", shape).place;
  return [place(), place()];
}

const wordsOf = async (place: MatrixPlace) =>
  new Uint32Array(await download(place.at.words.buffer));

function randomBytes(length: number, seed: number): Uint8Array<ArrayBuffer> {
  const random = seeded(seed);
  return Uint8Array.from({ length }, () => random() * 256);
}

/** Whole rows in chunks of any number, at any address, to each of several destinations. */
async function deliver(
  bytes: Uint8Array<ArrayBuffer>,
  rows: number,
  destinations: readonly Destination[],
  most = 29,
): Promise<void> {
  const random = seeded(rows);
  const rowBytes = bytes.length / rows;
  for (let rowStart = 0; rowStart < rows; ) {
    const count = Math.min(1 + Math.floor(random() * most), rows - rowStart);
    for (const destination of destinations) {
      const shifted = new Uint8Array(count * rowBytes + 3);
      shifted.set(bytes.subarray(rowStart * rowBytes, (rowStart + count) * rowBytes), 3);
      const chunk: WeightChunk = { dtype: "U8", rowStart, rows: count, bytes: shifted.subarray(3) };
      await destination.write(chunk);
    }
    rowStart += count;
  }
  for (const destination of destinations) await destination.finish?.();
}

const SIZES: readonly (Size & { readonly source?: RowSlice })[] = [
  { dtype: "bf16", columns: 203, parts: [37, 11], lanes: 8 },
  { dtype: "f32", columns: 3, parts: [5], lanes: 16, rowsPerLane: 2 },
  { dtype: "fp8", columns: 256, parts: [64, 64], lanes: 8 },
  { dtype: "int8", columns: 129, parts: [9, 1, 30], lanes: 8, rowsPerLane: 4 },
  { dtype: "mxfp4", columns: 96, parts: [7, 7], lanes: 8 },
  {
    ...{ dtype: "fp8", columns: 40, parts: [19], lanes: 8 },
    source: { sourceRow: 21, sourceColumn: 128, shape: [51, 200] },
  },
];

interface Encoded {
  readonly b64: string;
}
interface Golden {
  readonly awq_matmul: {
    readonly N: number;
    readonly K: number;
    readonly group_size: 32;
    readonly qweight: Encoded;
    readonly qzeros: Encoded;
    readonly scales_f16: Encoded;
    readonly dequant_NxK: Encoded;
    readonly x: Encoded;
    readonly y: Encoded;
  };
}

describe("RepackingUpload", () => {
  test.each(SIZES)("leaves what the host would: %o", async ({ source = {}, ...size }) => {
    const [onHost, onGpu] = places(size);
    const own = size.columns * WEIGHT_BYTES[size.dtype];
    for (const [part, rows] of size.parts.entries()) {
      const [sourceRows, sourceColumns] = source.shape ?? [rows, size.columns];
      const bytes = randomBytes(sourceRows * sourceColumns * (own / size.columns), part + 1);
      const destination = repacking.rows(onGpu, part, source);
      await deliver(bytes, sourceRows, [packRows(onHost, part, source), destination]);
    }
    const want = await wordsOf(onHost);
    expect(want.some((word) => word !== 0)).toBe(true);
    expect(await wordsOf(onGpu)).toEqual(want);
  });

  test("cuts chunks that are larger than its staging tensor, or than a launch", async () => {
    // Rows of 16 bytes become rows of 512.
    for (const [columns, rows] of [
      [70_000, 40],
      [4, 140_000],
    ] as const) {
      const [onHost, onGpu] = places({ dtype: "f32", columns, parts: [rows], lanes: 8 });
      const bytes = randomBytes(rows * columns * 4, 3);
      const both = [packRows(onHost, 0, {}), repacking.rows(onGpu, 0, {})];
      await deliver(bytes, rows, both, rows);
      expect(Buffer.compare(bufferOf(await wordsOf(onGpu)), bufferOf(await wordsOf(onHost)))).toBe(
        0,
      );
    }
  });

  test("leaves rows to the host of which a group does not fit", () => {
    const [place] = places({ dtype: "fp8", columns: 2 ** 19 + 1, parts: [1], lanes: 8 });
    expect(repacking.takesRows(place)).toBe(false);
  });

  test("leaves rows to the host where the GPU is not to take them", () => {
    const [place] = places({ dtype: "fp8", columns: 16, parts: [1], lanes: 8 });
    expect(new RepackingUpload(staged, false).takesRows(place)).toBe(false);
  });

  describe.each(["awq", "gptq"] as const)("of %s", (packing) => {
    test.each(Array.from({ length: 12 }, (_, i) => i + 1))(
      "keeps every code (seed %i)",
      async (seed) => {
        const random = seeded(seed * 77);
        const upTo = (n: number) => Math.floor(random() * n);
        const lanes = [8, 16, 32][upTo(3)]!;
        const sourceRows = 8 * (1 + upTo(9));
        const sourceColumns = 32 * (1 + upTo(11));
        const sliced = random() < 0.6;
        const sourceRow = sliced ? upTo(sourceRows) : 0;
        const rows = sliced ? 1 + upTo(sourceRows - sourceRow) : sourceRows;
        const sourceColumn = sliced ? 32 * upTo(sourceColumns / 32) : 0;
        const columns = sliced
          ? 32 * (1 + upTo((sourceColumns - sourceColumn) / 32))
          : sourceColumns;
        const codes = Array.from({ length: sourceColumns }, () =>
          Array.from({ length: sourceRows }, () => upTo(16)),
        );
        const parts = [5, rows, 3];
        const rowsPerLane = [1, 2, 4][upTo(3)]!;
        const [place] = places({ dtype: "int4", columns, parts, lanes, rowsPerLane });
        const slice = {
          packing,
          sourceRows,
          sourceColumns,
          sourceRow,
          rows,
          sourceColumn,
          columns,
        };
        const destination = repacking.columns(place, 1, { name: "test", ...slice });
        const fileRows = packing === "awq" ? sourceColumns : sourceColumns / 8;
        await deliver(packFile(packing, codes), fileRows, [destination], 1 + upTo(70));
        const words = await wordsOf(place);
        const firstRow = place.partRows[1]!;
        let wrong = 0;
        for (let n = 0; n < place.rowsPadded; n++) {
          for (let k = 0; k < Math.ceil(columns / 128) * 128; k++) {
            const r = n - firstRow;
            const meant = r >= 0 && r < rows && k < columns;
            const want = meant ? codes[sourceColumn + k]![sourceRow + r]! : 0;
            if (codeAt(words, place.shape.layout, columns, n, k) !== want) wrong += 1;
          }
        }
        expect(wrong).toBe(0);
      },
    );

    test("refuses rows that do not fit, and parts of granules", async () => {
      const [place] = places({ dtype: "int4", columns: 48, parts: [8], lanes: 8 });
      const wide = { name: "wide", packing, sourceRows: 2 ** 18 + 8, sourceColumns: 32 };
      expect(() => repacking.columns(place, 0, wide)).toThrow(
        `Cannot use wide in ${packing}: it has 262152 outputs`,
      );
      const cut = repacking.columns(place, 0, {
        ...{ name: "cut", packing, sourceRows: 8, sourceColumns: 48 },
      });
      const fileRows = packing === "awq" ? 48 : 6;
      const sent = deliver(new Uint8Array((8 * 48) / 2), fileRows, [cut], fileRows);
      await expect(sent).rejects.toThrow("0.5 granules");
    });
  });

  test.skipIf(absent)("AWQ weights multiply as the golden file has it", async () => {
    const golden = (JSON.parse(readFileSync(FILE, "utf8")) as Golden).awq_matmul;
    const bytesOf = ({ b64 }: Encoded) => new Uint8Array(Buffer.from(b64, "base64"));
    const floatsOf = (encoded: Encoded) => new Float32Array(bytesOf(encoded).buffer);
    const { N, K, group_size: groupColumns } = golden;
    const slice = { packing: "awq", sourceRows: N, sourceColumns: K } as const;
    const [place] = places({ dtype: "int4", columns: K, parts: [N], lanes: 8 });
    const destination = repacking.columns(place, 0, { name: "golden", ...slice });
    await deliver(bytesOf(golden.qweight), K, [destination]);
    const words = await wordsOf(place);
    const scaleWords = new Uint32Array(Math.ceil(K / groupColumns) * N);
    packColumnScales({
      ...slice,
      qzeros: bytesOf(golden.qzeros),
      scales: bytesOf(golden.scales_f16),
      scalesDtype: "F16",
      groupColumns,
      into: scaleWords,
      place: scalePlace({ lanes: 8 }, { rowsPadded: N, groups: K / groupColumns }),
    });
    const weight = Float64Array.from({ length: N * K }, (_, i) => {
      const [n, k] = [Math.floor(i / K), i % K];
      const word = scaleWords[Math.floor(k / groupColumns) * N + n]!;
      const scale = new Float32Array(Uint32Array.of(word & ~31).buffer)[0]!;
      return (codeAt(words, { lanes: 8 }, K, n, k) - (word & 31)) * scale;
    });
    expect(Float32Array.from(weight)).toEqual(floatsOf(golden.dequant_NxK));
    const x = floatsOf(golden.x);
    const want = floatsOf(golden.y);
    const largest = Math.max(...want.map(Math.abs));
    want.forEach((value, i) => {
      const [row, n] = [Math.floor(i / N), i % N];
      let sum = 0;
      for (let k = 0; k < K; k++) sum += x[row * K + k]! * weight[n * K + k]!;
      expect(Math.abs(sum - value) / largest).toBeLessThan(1e-6);
    });
  });
});

const bufferOf = ({ buffer }: Uint32Array<ArrayBuffer>) => Buffer.from(buffer);
