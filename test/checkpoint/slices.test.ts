import { describe, expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import type { WeightSlice } from "../../src/checkpoint/weight_spec.ts";
import { type Collector, decode, spec } from "../support/checkpoints/collect_weights.ts";
import { checkpointFiles, type TensorInput } from "../support/checkpoints/write_checkpoint.ts";

const ROWS = 150;
const COLUMNS = 6;
/** Its value says where an element stands. */
const MATRIX: TensorInput = {
  name: "matrix",
  shape: [ROWS, COLUMNS],
  dtype: "F32",
  values: Array.from({ length: ROWS * COLUMNS }, (_, i) => i),
};
const CUBE: TensorInput = { ...MATRIX, name: "cube", shape: [ROWS, 3, 2] };

async function load(tensor: TensorInput, slice: WeightSlice, chunkBytes: number) {
  const source = memorySource(checkpointFiles({ tensors: [MATRIX, CUBE] }));
  const read: number[] = [];
  const checkpoint = await Checkpoint.open({
    ...source,
    read(file, offset, length) {
      for (let at = offset; at < offset + length; at++) read.push(at);
      return source.read(file, offset, length);
    },
  });
  const { offset } = checkpoint.tensors.get(tensor.name)!;
  read.length = 0;
  const wanted = spec(tensor, { slice });
  let progress = { loadedBytes: 0, totalBytes: 0 };
  checkpoint.check([wanted, spec(MATRIX), spec(CUBE)]);
  await checkpoint.load([wanted], {
    chunkBytes,
    onProgress: (one) => {
      progress = one;
    },
  });
  const destination = wanted.destination as Collector;
  expect(destination.finished).toBe(1);
  expect(progress).toMatchObject({ loadedBytes: read.length, totalBytes: read.length });
  let next = 0;
  for (const { rowStart, rows } of destination.chunks) {
    expect(rowStart).toBe(next);
    next += rows;
  }
  expect(next).toBe(slice.rows);
  const elements = read.filter((_, i) => i % 4 === 0).map((at) => (at - offset) / 4);
  return { values: [...decode(destination.bytes(), "F32")], elements };
}

describe("slices of tensors", () => {
  test.each([1, 48, 4096])("are delivered and read alone, in chunks of %i bytes", async (bytes) => {
    const rows = { rowStart: 7, rows: 130 };
    const range = (start: number, count: number) =>
      Array.from({ length: count }, (_, i) => start + i);
    const wholeRows = await load(MATRIX, rows, bytes);
    expect(wholeRows.values).toEqual(range(7 * COLUMNS, 130 * COLUMNS));
    expect(wholeRows.elements).toEqual(wholeRows.values);

    const columns = await load(MATRIX, { ...rows, columns: { start: 2, count: 3 } }, bytes);
    const expected = range(7, 130).flatMap((row) => range(row * COLUMNS + 2, 3));
    expect(columns.values).toEqual(expected);
    expect(columns.elements).toEqual(expected);

    // The second of three pairs.
    const pairs = await load(CUBE, { ...rows, columns: { start: 1, count: 1 } }, bytes);
    expect(pairs.values).toEqual(range(7, 130).flatMap((row) => range(row * COLUMNS + 2, 2)));
    expect(pairs.elements).toEqual(pairs.values);
  });
});
