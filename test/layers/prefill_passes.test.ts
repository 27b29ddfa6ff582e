import { expect, test } from "vitest";
import { ITEM_WORDS, maxPasses, PrefillPasses } from "../../src/layers/attention/prefill_passes.ts";
import type { BatchSequence } from "../../src/layers/batch.ts";

const geometry = {
  pageSize: 4,
  splitLength: 8,
  capacity: 16,
  rowTile: 3,
  maxRows: 64,
  maxKeys: 200,
};

function sequence(queryStart: number, queryLength: number, position: number): BatchSequence {
  const pages = Math.ceil((position + queryLength) / geometry.pageSize);
  // Pages in descending order, far apart for different sequences.
  const pageTable = Array.from({ length: pages }, (_, i) => 1000 * (queryStart + 1) - i);
  return { phase: "prefill", queryStart, queryLength, position, pageTable };
}

/** Every (row, key slot) pair that the passes make a row look at, in the order it happens. */
function visits(passes: PrefillPasses) {
  const seen = new Map<number, number[]>();
  passes.passes.forEach((pass, p) => {
    for (let i = pass.firstItem; i < pass.firstItem + pass.items; i++) {
      const [row, rows, start, , count] = passes.items.subarray(i * ITEM_WORDS);
      for (let r = row!; r < row! + rows!; r++) {
        const slots = passes.keySlots.subarray(p * geometry.capacity + start!);
        seen.set(r, [...(seen.get(r) ?? []), ...slots.subarray(0, count)]);
      }
    }
  });
  return seen;
}

test.each([
  [[sequence(0, 5, 0)]],
  [[sequence(0, 16, 0)]],
  [[sequence(0, 1, 60), sequence(1, 7, 0), sequence(8, 2, 31)]],
  [[sequence(0, 40, 17), sequence(40, 3, 2)]],
])("PrefillPasses shows every row all keys of its sequence once, in order (%#)", (sequences) => {
  const passes = new PrefillPasses(geometry);
  passes.fill(sequences);
  expect(passes.passes.length).toBeLessThanOrEqual(maxPasses(geometry));
  const seen = visits(passes);
  for (const { queryStart, queryLength, position, pageTable } of sequences) {
    const total = position + queryLength;
    const slots = Array.from({ length: total }, (_, key) => pageTable[key >> 2]! * 4 + (key % 4));
    for (let r = queryStart; r < queryStart + queryLength; r++) expect(seen.get(r)).toEqual(slots);
  }
});

test("PrefillPasses cuts a sequence at multiples of the split length only", () => {
  const passes = new PrefillPasses(geometry);
  passes.fill([sequence(0, 1, 10), sequence(1, 1, 40)]);
  for (let i = 0; i < passes.itemCount; i++) {
    expect(passes.items[i * ITEM_WORDS + 3]! % geometry.splitLength).toBe(0);
  }
});

test("PrefillPasses marks the first and the last pass of a row tile", () => {
  const passes = new PrefillPasses(geometry);
  passes.fill([sequence(0, 1, 40)]);
  const marks = passes.passes.map((_, i) => [...passes.items.subarray(i * 8 + 5, i * 8 + 7)]);
  expect(marks).toEqual([
    [1, 0],
    [0, 0],
    [0, 1],
  ]);
});

test("PrefillPasses skips generated rows", () => {
  const passes = new PrefillPasses(geometry);
  passes.fill([{ ...sequence(0, 1, 10), phase: "decode" }]);
  expect(passes.passes).toEqual([]);
});
