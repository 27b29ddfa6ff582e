import { expect, test } from "vitest";
import { resolveBuckets } from "../../../src/engine/load/decode_buckets.ts";
import { InvalidRequestError } from "../../../src/errors.ts";

test("sizes are dense where padding would cost most, and end at the largest wanted", () => {
  const sizes = resolveBuckets({});
  expect(sizes.slice(0, 11)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14]);
  expect(sizes.slice(-8)).toEqual([64, 80, 96, 112, 128, 144, 160].slice(-7).toSpliced(0, 0, 56));
  expect(resolveBuckets({ maxDecodeBucket: 11 })).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 10, 11]);
  expect(resolveBuckets({ maxDecodeBucket: 200 }).slice(-4)).toEqual([160, 176, 192, 200]);
});

test("sizes that are given replace them, below the largest wanted", () => {
  expect(resolveBuckets({ decodeBuckets: [8, 1, 4, 4] })).toEqual([1, 4, 8]);
  expect(resolveBuckets({ decodeBuckets: [8, 1, 4], maxDecodeBucket: 4 })).toEqual([1, 4]);
  expect(resolveBuckets({ decodeBuckets: false })).toEqual([]);
});

test.each([
  [{ decodeBuckets: [] }, "decodeBuckets"],
  [{ decodeBuckets: [2, 0] }, "decodeBuckets"],
  [{ decodeBuckets: [1.5] }, "decodeBuckets"],
  [{ decodeBuckets: [8], maxDecodeBucket: 4 }, "maxDecodeBucket"],
  [{ decodeBuckets: false, maxDecodeBucket: 4 } as const, "maxDecodeBucket"],
  [{ maxDecodeBucket: 0 }, "maxDecodeBucket"],
  [{ maxDecodeBucket: Number.NaN }, "maxDecodeBucket"],
])("%o is refused and named", (options, name) => {
  const attempt = () => resolveBuckets(options);
  expect(attempt).toThrow(InvalidRequestError);
  expect(attempt).toThrow(name);
});
