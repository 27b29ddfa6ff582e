import { afterAll, describe, expect, test } from "vitest";
import { ColumnPacker, type ColumnPacking } from "../../kernels/linear/column_packer.ts";
import { WEIGHT_BYTES, type WeightDtype } from "../../kernels/linear/layout.ts";
import type { Destination, WeightChunk } from "../../src/checkpoint/weight_spec.ts";
import { DeviceMemory } from "../../src/gpu/memory.ts";
import { allocateMatrix, type MatrixPlace } from "../../src/layers/matrix_place.ts";
import { packRows } from "../../src/layers/matrix_specs.ts";
import { RepackingUpload } from "../../src/layers/repacking_upload.ts";
import type { RowSlice } from "../../src/layers/staged_rows.ts";
import { StagedUpload } from "../../src/layers/staged_upload.ts";
import { device, download, seeded } from "../support/gpu.ts";

const memory = new DeviceMemory(device.limits, device);
const staged = new StagedUpload(device);
const repacking = new RepackingUpload(staged);
afterAll(() => {
  staged.destroy();
  memory.destroy();
});

interface Size {
  readonly dtype: WeightDtype;
  readonly columns: number;
  readonly parts: readonly number[];
  readonly lanes: number;
}

/** Two places alike: what one way writes is compared with what the other does. */
function places({ dtype, columns, parts, lanes }: Size): [MatrixPlace, MatrixPlace] {
  const encoding = { kind: "plain", dtype: "U8" } as const;
  const format = { dtype, encoding, ...(dtype === "int4" && { groupColumns: 32 as const }) };
  const shape = { format, columns, parts, layout: { lanes } };
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
  { dtype: "f32", columns: 3, parts: [5], lanes: 16 },
  { dtype: "fp8", columns: 256, parts: [64, 64], lanes: 8 },
  { dtype: "int8", columns: 129, parts: [9, 1, 30], lanes: 32 },
  { dtype: "mxfp4", columns: 96, parts: [7, 7], lanes: 8 },
  {
    ...{ dtype: "fp8", columns: 40, parts: [19], lanes: 8 },
    source: { sourceRow: 21, sourceColumn: 128, shape: [51, 200] },
  },
];

describe("RepackingUpload", () => {
  test.each(SIZES)("leaves what the host would: %o", async ({ source = {}, ...size }) => {
    const [onHost, onGpu] = places(size);
    const own = size.columns * WEIGHT_BYTES[size.dtype];
    for (const [part, rows] of size.parts.entries()) {
      const [sourceRows, sourceColumns] = source.shape ?? [rows, size.columns];
      const bytes = randomBytes(sourceRows * sourceColumns * (own / size.columns), part + 1);
      const destination = repacking.rows(onGpu, part, source);
      await deliver(bytes, sourceRows, [packRows(onHost, part, source), destination!]);
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
      const both = [packRows(onHost, 0, {}), repacking.rows(onGpu, 0, {})!];
      await deliver(bytes, rows, both, rows);
      expect(Buffer.compare(bufferOf(await wordsOf(onGpu)), bufferOf(await wordsOf(onHost)))).toBe(
        0,
      );
    }
  });

  test("leaves rows to the host of which a group does not fit", () => {
    const [place] = places({ dtype: "fp8", columns: 2 ** 19 + 1, parts: [1], lanes: 8 });
    expect(repacking.rows(place, 0, {})).toBeUndefined();
  });

  describe.each(["awq", "gptq"] as const)("of %s", (packing) => {
    test.each([
      { sourceRows: 24, sourceColumns: 128 },
      { sourceRows: 40, sourceColumns: 416, sourceRow: 8, rows: 17 },
      {
        sourceRows: 72,
        sourceColumns: 320,
        sourceRow: 3,
        rows: 61,
        sourceColumn: 96,
        columns: 160,
      },
    ])("leaves what the host would: %o", async (given) => {
      const { sourceRows, sourceColumns } = given;
      const slice = { sourceRow: 0, rows: sourceRows, sourceColumn: 0, columns: sourceColumns };
      const whole = { packing, ...slice, ...given };
      const parts = [whole.rows, 5];
      const [onHost, onGpu] = places({ dtype: "int4", columns: whole.columns, parts, lanes: 8 });
      const { packer, bytes, fileRows } = hostPacker(onHost, whole);
      await deliver(bytes, fileRows, [packer, repacking.columns(onGpu, 0, whole)!]);
      const want = await wordsOf(onHost);
      expect(want.some((word) => word !== 0)).toBe(true);
      expect(await wordsOf(onGpu)).toEqual(want);
    });

    test("leaves parts of granules to the host, and rows that do not fit", () => {
      const [place] = places({ dtype: "int4", columns: 48, parts: [8], lanes: 8 });
      const narrow = { packing, sourceRows: 8, sourceColumns: 48 };
      expect(repacking.columns(place, 0, narrow)).toBeUndefined();
      const wide = { packing, sourceRows: 2 ** 18 + 8, sourceColumns: 32 };
      expect(repacking.columns(place, 0, wide)).toBeUndefined();
    });
  });
});

function hostPacker(
  place: MatrixPlace,
  slice: {
    readonly packing: ColumnPacking;
    readonly sourceRows: number;
    readonly sourceColumns: number;
  },
) {
  const { packing, sourceRows, sourceColumns } = slice;
  const columns = new ColumnPacker({ ...slice, lanes: place.shape.layout.lanes });
  const packer: Destination = {
    write: ({ bytes }) => {
      for (const run of columns.push(bytes)) place.writeRun(run);
    },
  };
  const fileRows = packing === "awq" ? sourceColumns : sourceColumns / 8;
  return { packer, fileRows, bytes: randomBytes((sourceRows * sourceColumns) / 2, 7) };
}

const bufferOf = ({ buffer }: Uint32Array<ArrayBuffer>) => Buffer.from(buffer);
