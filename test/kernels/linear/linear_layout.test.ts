import { describe, expect, test } from "vitest";
import { packWeight, unpackWeight } from "../../../kernels/linear/checks/check_weights.ts";
import { RowPacker, spreadScales } from "../../../kernels/linear/upload/row_packer.ts";
import {
  int4ScaleWord,
  scaleWords,
  segments,
  weightBytes,
} from "../../../kernels/linear/weights/layout.ts";
import {
  gateUpRows,
  granulePlace,
  paddedRows,
  scalePlace,
} from "../../../kernels/linear/weights/weight_order.ts";
import { decodeE4m3 } from "../../../src/dtype.ts";

const shape = { dtype: "fp8", rows: 21, columns: 141, lanes: 8 } as const;
const bytes = Uint8Array.from({ length: 21 * 141 }, (_, i) => (i * 37) % 120);

describe("RowPacker", () => {
  test("keeps every number, whatever the pieces it is given", () => {
    const blockScales = Float32Array.of(1, 2);
    const dense = unpackWeight(shape, packWeight(shape, bytes, blockScales));
    const want = Float64Array.from(bytes, (code, i) => decodeE4m3(code) * (i % 141 < 128 ? 1 : 2));
    expect(dense).toEqual(want);
  });

  test("keeps pairs of 4-bit codes in order, in rows of an odd number of columns", () => {
    const four = { dtype: "int4", rows: 11, columns: 37, lanes: 8, groupColumns: 32 } as const;
    const pairs = Uint8Array.from({ length: 11 * 19 }, (_, i) => (i * 37) % 256);
    const { words } = packWeight(four, pairs);
    const scales = new Uint32Array(4 * 16).fill(int4ScaleWord(0.5, 3));
    const want = Float64Array.from({ length: 11 * 37 }, (_, i) => {
      const byte = pairs[Math.floor(i / 37) * 19 + ((i % 37) >> 1)]!;
      return ((i % 37) % 2 === 0 ? byte & 15 : byte >> 4) / 2 - 1.5;
    });
    expect(unpackWeight(four, { words, scales })).toEqual(want);
  });

  test("emits only whole groups of rows, in order, and pads the last", () => {
    const packer = new RowPacker({ ...shape, firstRow: 8 });
    expect(packer.push(bytes.subarray(0, 5 * 141), 5)).toBeUndefined();
    const run = packer.push(bytes.subarray(5 * 141), 16)!;
    expect(run.firstRow).toBe(8);
    expect(run.byteOffset).toBe(8 * 256);
    expect(run.words.length).toBe((16 * 256) / 4);
    const last = packer.finish()!;
    expect(last.firstRow).toBe(24);
    expect(last.words.length).toBe((8 * 256) / 4);
    expect(packer.finish()).toBeUndefined();
  });

  test("pads with zeros where an earlier group held rows", () => {
    const columns = 256;
    const full = new Uint8Array(9 * columns).fill(0xff);
    const packer = new RowPacker({ dtype: "fp8", columns, lanes: 8 });
    packer.push(full, 9);
    const { words } = packer.finish()!;
    // Granule 0: row 8 of the matrix, then seven rows of padding.
    expect([...words.subarray(0, 32)]).toEqual([
      ...Array(4).fill(0xffffffff),
      ...Array(28).fill(0),
    ]);
  });

  test("gives the same words from bytes that are not aligned", () => {
    const shifted = new Uint8Array(1024 + 1);
    const source = Uint8Array.from({ length: 1024 }, (_, i) => i % 251);
    shifted.set(source, 1);
    const pack = (data: Uint8Array) =>
      new RowPacker({ dtype: "bf16", columns: 64, lanes: 8 }).push(data, 8)!.words;
    expect(pack(shifted.subarray(1))).toEqual(pack(source));
  });

  test("refuses bytes that are not whole rows", () => {
    const packer = new RowPacker({ dtype: "f32", columns: 3, lanes: 8 });
    expect(() => packer.push(new Uint8Array(13), 1)).toThrow("13 bytes are not 1 rows of 12");
  });

  test("refuses to start inside a group", () => {
    const start = () => new RowPacker({ ...shape, firstRow: 4 });
    expect(start).toThrow("row 4 is not a multiple of 8");
  });
});

test("weightBytes counts padded rows and columns", () => {
  expect(weightBytes(shape)).toEqual({ words: 24 * 256, scales: 24 * 2 * 4 });
  expect(weightBytes({ ...shape, dtype: "bf16" })).toEqual({ words: 24 * 512, scales: 0 });
});

test("weightBytes counts half bytes and the scales of every group", () => {
  const padded = { words: 24 * 256, scales: 24 * 2 * 4 };
  expect(weightBytes({ ...shape, dtype: "int8" })).toEqual(padded);
  expect(weightBytes({ ...shape, dtype: "mxfp4" })).toEqual({ ...padded, words: 24 * 128 });
  expect(weightBytes({ ...shape, dtype: "int4", groupColumns: 32 })).toEqual({
    words: 24 * 128,
    scales: 24 * 8 * 4,
  });
  expect(scaleWords({ dtype: "int4", columns: 141 })).toBe(2);
});

test("int4ScaleWord keeps F16 and BF16 scales exactly and rounds others to nearest", () => {
  const scaleOf = (word: number) => new Float32Array(Uint32Array.of(word - (word & 31)).buffer)[0];
  const half = 0.00012153387069702148;
  expect(scaleOf(int4ScaleWord(half, 16))).toBe(half);
  expect(int4ScaleWord(half, 16) & 31).toBe(16);
  expect(int4ScaleWord(0, 31)).toBe(31);
  expect(scaleOf(int4ScaleWord(-1.5, 7))).toBe(-1.5);
  const step = 2 ** -18;
  expect(scaleOf(int4ScaleWord(1 + 0.45 * step, 31))).toBe(1);
  expect(scaleOf(int4ScaleWord(1 + 0.55 * step, 31))).toBe(1 + step);
  expect(scaleOf(int4ScaleWord(2 - 0.4 * step, 0))).toBe(2);
});

test("gateUpRows starts the up rows at a multiple of the lanes", () => {
  expect(gateUpRows(21, { lanes: 8 })).toEqual({ upRow: 24, rows: 48 });
  expect(gateUpRows(21, { lanes: 8, rowsPerLane: 4 })).toEqual({ upRow: 32, rows: 64 });
});

describe("the order of a weight's words", () => {
  const inRuns = { lanes: 8, rowsPerLane: 4, scaleOrder: "byRun" } as const;

  test("has the granules of a run side by side", () => {
    const [plain, runs] = [{ lanes: 8 }, inRuns].map((order) => granulePlace(order, 5));
    expect([plain!(7, 0), plain!(8, 0), plain!(8, 2), plain!(33, 4)]).toEqual([7, 40, 56, 193]);
    expect([runs!(7, 0), runs!(8, 0), runs!(8, 2), runs!(33, 4)]).toEqual([7, 8, 72, 289]);
    expect(paddedRows(33, inRuns)).toBe(64);
  });

  test("has the scales of a group of columns together, or those of a run", () => {
    const size = { rowsPadded: 64, groups: 3 };
    const plain = scalePlace({ lanes: 8, rowsPerLane: 4 }, size);
    const runs = scalePlace(inRuns, size);
    expect([plain(33, 0), plain(33, 2)]).toEqual([33, 2 * 64 + 33]);
    expect([runs(31, 1), runs(32, 0), runs(33, 2)]).toEqual([63, 96, 96 + 64 + 1]);
  });

  test.each(
    [1, 2, 4].flatMap(
      (rowsPerLane) =>
        [
          [rowsPerLane, "byGroup"],
          [rowsPerLane, "byRun"],
        ] as const,
    ),
  )(
    "gives each word a place of its own: %i rows of a lane, scales %s",
    (rowsPerLane, scaleOrder) => {
      const order = { lanes: 8, rowsPerLane, scaleOrder };
      const rowsPadded = paddedRows(21, order);
      for (const place of [granulePlace(order, 6), scalePlace(order, { rowsPadded, groups: 6 })]) {
        const places = Array.from({ length: 6 * rowsPadded }, (_, i) =>
          place(i % rowsPadded, Math.floor(i / rowsPadded)),
        );
        expect(places.sort((a, b) => a - b)).toEqual(places.map((_, i) => i));
      }
      const blockScales = Float32Array.of(1, 2);
      const packed = packWeight({ ...shape, ...order }, bytes, blockScales);
      expect(unpackWeight({ ...shape, ...order }, packed)).toEqual(
        unpackWeight(shape, packWeight(shape, bytes, blockScales)),
      );
    },
  );
});

test("segments are as many as there are blocks, 32 at most", () => {
  expect([1, 128, 129, 4096, 18432].map(segments)).toEqual([1, 1, 2, 32, 32]);
});

test("spreadScales takes a slice that starts inside a block", () => {
  const into = new Float32Array(2 * 8);
  spreadScales({
    blockScales: Float32Array.of(1, 2, 3, 4, 5, 6),
    columnBlocks: 3,
    rows: 3,
    sourceRow: 126,
    firstColumnBlock: 1,
    columnBlockCount: 2,
    into,
    place: scalePlace({ lanes: 8 }, { rowsPadded: 8, groups: 2 }),
    firstRow: 4,
  });
  expect([...into]).toEqual([0, 0, 0, 0, 2, 2, 5, 0, 0, 0, 0, 0, 3, 3, 6, 0]);
});
