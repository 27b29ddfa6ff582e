import { expect, test } from "vitest";
import { cutOf } from "../../src/layers/micro_batches.ts";

/** Sequences with so many rows each. */
function sequences(...lengths: readonly number[]) {
  let queryStart = 0;
  return lengths.map((length) => {
    const one = { queryStart };
    queryStart += length;
    return one;
  });
}

test("cutOf cuts where a sequence begins, as evenly as it can", () => {
  expect(cutOf(sequences(1, 1, 1, 1), { rows: 4, most: 8 })).toBe(2);
  expect(cutOf(sequences(1, 1, 1), { rows: 3, most: 8 })).toBe(1);
  expect(cutOf(sequences(5, 1, 1, 1, 9), { rows: 17, most: 9 })).toBe(4);
  expect(cutOf(sequences(9, 3), { rows: 12, most: 8 })).toBe(1);
});

test("cutOf counts the rows that fill a batch up, which come last", () => {
  expect(cutOf(sequences(1, 1, 1, 1, 1), { rows: 8, most: 8 })).toBe(4);
  expect(cutOf(sequences(1, 1), { rows: 8, most: 8 })).toBe(1);
});

test("cutOf gives the second part no more rows than there is memory for", () => {
  expect(cutOf(sequences(3, 9), { rows: 12, most: 8 })).toBeUndefined();
  expect(cutOf(sequences(2, 8, 2), { rows: 12, most: 6 })).toBe(2);
});

test("cutOf leaves a batch whole that has one sequence, or none, or not in order", () => {
  expect(cutOf(sequences(12), { rows: 12, most: 6 })).toBeUndefined();
  expect(cutOf([], { rows: 0, most: 6 })).toBeUndefined();
  const reversed = [{ queryStart: 2 }, { queryStart: 0 }, { queryStart: 4 }];
  expect(cutOf(reversed, { rows: 6, most: 6 })).toBeUndefined();
});
