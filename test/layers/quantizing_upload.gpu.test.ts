import { afterAll, describe, expect, test } from "vitest";
import { quantizeRows } from "../../kernels/linear/upload/quantize_reference.ts";
import type { WeightChunk } from "../../src/checkpoint/weight_spec.ts";
import { type Dtype, decodeBf16, encodeBf16 } from "../../src/dtype.ts";
import { DeviceMemory } from "../../src/gpu/memory.ts";
import type { MatrixFormat } from "../../src/layers/weights/matrix_format.ts";
import { allocateMatrix, type MatrixPlace } from "../../src/layers/weights/matrix_place.ts";
import { QuantizingUpload } from "../../src/layers/weights/quantizing_upload.ts";
import { StagedUpload } from "../../src/layers/weights/staged_upload.ts";
import { device, download, seeded } from "../support/devices/gpu.ts";

const layout = { lanes: 8, rowsPerLane: 2, scaleOrder: "byRun" } as const;
const memory = new DeviceMemory(device.limits, device);
const staged = new StagedUpload(device);
const upload = new QuantizingUpload(staged);
afterAll(() => {
  upload.destroy();
  staged.destroy();
  memory.destroy();
});

type Target = Pick<MatrixFormat, "dtype" | "groupColumns">;

function allocate(target: Target, dtype: Dtype, columns: number, parts: readonly number[]) {
  const format = { ...target, encoding: { kind: "plain", dtype } } as const;
  return allocateMatrix(memory, "test", { format, columns, parts, layout }).place;
}

/** Numbers that BF16 holds, so that they are the same in every dtype but F16. */
function matrix(rows: number, columns: number, seed: number): Float32Array {
  const random = seeded(seed);
  return Float32Array.from({ length: rows * columns }, () =>
    decodeBf16(encodeBf16(random() + random() - 1)),
  );
}

function bytesOf(numbers: Float32Array, dtype: Dtype): Uint8Array<ArrayBuffer> {
  if (dtype === "F32") return new Uint8Array(numbers.slice().buffer);
  return new Uint8Array(Uint16Array.from(numbers, encodeBf16).buffer);
}

/** Chunks of a random number of rows, as a checkpoint gives them. */
function* chunks(bytes: Uint8Array<ArrayBuffer>, rows: number, dtype: Dtype, seed: number) {
  const random = seeded(seed);
  const rowBytes = bytes.length / rows;
  for (let rowStart = 0; rowStart < rows; ) {
    const count = Math.min(1 + Math.floor(random() * 29), rows - rowStart);
    const from = rowStart * rowBytes;
    // At odd addresses too.
    const shifted = new Uint8Array(count * rowBytes + 3);
    shifted.set(bytes.subarray(from, from + count * rowBytes), 3);
    yield { dtype, rowStart, rows: count, bytes: shifted.subarray(3) } satisfies WeightChunk;
    rowStart += count;
  }
}

async function wordsOf(place: MatrixPlace) {
  const { words, scales } = place.at;
  return {
    words: new Uint32Array(await download(words.buffer)),
    scales: new Uint32Array(await download(scales!.buffer)).subarray(
      0,
      place.scaleGroups * place.rowsPadded,
    ),
  };
}

const targets: readonly Target[] = [
  { dtype: "int4", groupColumns: 32 },
  { dtype: "int4", groupColumns: 128 },
  { dtype: "int8" },
  { dtype: "fp8" },
];

describe("QuantizingUpload", () => {
  test.each(targets)("puts the parts of a fused matrix where they belong: %o", async (target) => {
    const parts = [37, 11];
    const columns = 203;
    const place = allocate(target, "BF16", columns, parts);
    const want = {
      words: new Uint32Array(place.at.words.size / 4),
      scales: new Uint32Array(place.scaleGroups * place.rowsPadded),
    };
    const shape = { ...target, columns, rowsPadded: place.rowsPadded, ...layout };
    let errors = 0;
    let squares = 0;
    for (const [part, rows] of parts.entries()) {
      const dtype = part === 0 ? "BF16" : "F32";
      const numbers = matrix(rows, columns, 3 + part);
      const name = `fused.${target.dtype}.${target.groupColumns}`;
      const destination = upload.destination({ place, part, source: { name } });
      for (const chunk of chunks(bytesOf(numbers, dtype), rows, dtype, 9)) {
        await destination.write(chunk);
      }
      await destination.finish?.();
      const firstRow = place.partRows[part]!;
      const sums = quantizeRows({
        shape: shape as Parameters<typeof quantizeRows>[0]["shape"],
        numbers,
        firstRow,
        ...want,
      });
      sums.forEach((sum, i) => {
        if (i % 2 === 0) errors += sum;
        else squares += sum;
      });
    }
    expect(await wordsOf(place)).toEqual(want);
    const last = (await upload.report()).at(-1)!;
    expect(last.name).toContain("fused");
    expect(last.relativeError / Math.sqrt(errors / squares)).toBeCloseTo(1, 4);
  });

  test("takes a slice of rows and columns, and the same one again", async () => {
    const [sourceRows, sourceColumns, columns, rows] = [51, 320, 96, 19] as const;
    const target = { dtype: "int4", groupColumns: 32 } as const;
    const place = allocate(target, "BF16", columns, [rows]);
    const numbers = matrix(sourceRows, sourceColumns, 5);
    const source = {
      name: "slice",
      sourceRow: 21,
      sourceColumn: 160,
      shape: [sourceRows, sourceColumns] as const,
    };
    const destination = upload.destination({ place, part: 0, source });
    const sliced = new Float32Array(rows * columns);
    for (let r = 0; r < rows; r++) {
      const from = (21 + r) * sourceColumns + 160;
      sliced.set(numbers.subarray(from, from + columns), r * columns);
    }
    const shape = { ...target, columns, rowsPadded: place.rowsPadded, ...layout };
    const want = {
      words: new Uint32Array(place.at.words.size / 4),
      scales: new Uint32Array(place.scaleGroups * place.rowsPadded),
    };
    quantizeRows({ shape, numbers: sliced, firstRow: 0, ...want });
    for (const seed of [1, 2]) {
      for (const chunk of chunks(bytesOf(numbers, "BF16"), sourceRows, "BF16", seed)) {
        await destination.write(chunk);
      }
      await destination.finish?.();
      expect(await wordsOf(place)).toEqual(want);
    }
  });

  test("cuts a chunk that is larger than its staging tensor", async () => {
    const [rows, columns] = [20, 70_000] as const;
    const place = allocate({ dtype: "int8" }, "F32", columns, [rows]);
    // Every group of 128 columns has the largest code, so that codes are the numbers themselves.
    const numbers = new Float32Array(rows * columns).map((_, i) =>
      (i % columns) % 128 === 0 ? 127 : ((i * 7) % 255) - 127,
    );
    const destination = upload.destination({ place, part: 0, source: { name: "large" } });
    await destination.write({ dtype: "F32", rowStart: 0, rows, bytes: bytesOf(numbers, "F32") });
    await destination.finish?.();
    const { relativeError } = (await upload.report()).find(({ name }) => name === "large")!;
    expect(relativeError).toBeLessThan(1e-6);
    const [one] = new Uint32Array(Float32Array.of(1).buffer);
    const { scales } = await wordsOf(place);
    const groups = Math.ceil(columns / 128);
    const wanted = new Uint32Array(groups * place.rowsPadded);
    for (let i = 0; i < groups * rows; i++) {
      wanted[place.scalePlace(i % rows, Math.floor(i / rows))] = one!;
    }
    expect(scales).toEqual(wanted);
  });

  test("does not report what has not come", async () => {
    const place = allocate({ dtype: "fp8" }, "BF16", 16, [8]);
    upload.destination({ place, part: 0, source: { name: "absent" } });
    expect((await upload.report()).map(({ name }) => name)).not.toContain("absent");
  });

  test("refuses codes", async () => {
    const place = allocate({ dtype: "int8" }, "I8", 16, [8]);
    const destination = upload.destination({ place, part: 0, source: { name: "codes" } });
    const chunk = { dtype: "I8", rowStart: 0, rows: 1, bytes: new Uint8Array(16) } as const;
    await expect(async () => destination.write(chunk)).rejects.toThrow(
      "Cannot use quantization of codes: its dtype is I8",
    );
  });

  test("refuses rows that do not fit", () => {
    const place = allocate({ dtype: "int8" }, "F32", 140_000, [1]);
    const ask = () => upload.destination({ place, part: 0, source: { name: "wide" } });
    expect(ask).toThrow("Cannot use quantization of wide: its rows have 140000 columns");
  });

  test("begins anew after destroy", async () => {
    upload.destroy();
    expect(await upload.report()).toEqual([]);
    const place = allocate({ dtype: "fp8" }, "F32", 16, [1]);
    const destination = upload.destination({ place, part: 0, source: { name: "later" } });
    const bytes = bytesOf(new Float32Array(16), "F32");
    await destination.write({ dtype: "F32", rowStart: 0, rows: 1, bytes });
    await destination.finish?.();
    expect(await upload.report()).toEqual([{ name: "later", relativeError: 0 }]);
  });
});
