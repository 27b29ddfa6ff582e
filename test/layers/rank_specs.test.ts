import { describe, expect, test } from "vitest";
import type { WeightSpec } from "../../src/checkpoint/weight_spec.ts";
import { cutProblem, specOnRank } from "../../src/layers/ranks/rank_specs.ts";
import type { MatrixEncoding } from "../../src/layers/weights/matrix_format.ts";
import { spec } from "../support/checkpoints/collect_weights.ts";

const SECOND_OF_THREE = { rank: 1, size: 3 };
const weight = (split: WeightSpec["split"], shape = [256, 128]) =>
  spec({ name: "w", shape, dtype: "F32" }, { split });

describe("specOnRank", () => {
  test("one rank wants whole tensors", () => {
    const own = weight("rows");
    expect(specOnRank(own, { rank: 0, size: 1 })).toBe(own);
  });

  test.each(["none", "experts"] as const)("%s: the tensor is a rank's as it is", (split) => {
    const own = weight(split);
    expect(specOnRank(own, SECOND_OF_THREE)).toBe(own);
  });

  test.each(["rows", "heads"] as const)("%s: runs of the first dimension", (split) => {
    const { shape, slice } = specOnRank(weight(split), SECOND_OF_THREE);
    expect({ shape, slice }).toEqual({ shape: [768, 128], slice: { rowStart: 256, rows: 256 } });
    const vector = specOnRank(weight(split, [8]), { rank: 2, size: 3 });
    expect(vector.shape).toEqual([24]);
    expect(vector.slice).toEqual({ rowStart: 16, rows: 8 });
  });

  test("columns: runs of the second dimension, of every row", () => {
    const { shape, slice } = specOnRank(weight("columns"), SECOND_OF_THREE);
    expect(shape).toEqual([256, 384]);
    expect(slice).toEqual({ rowStart: 0, rows: 256, columns: { start: 128, count: 128 } });
  });
});

describe("cutProblem", () => {
  const blocks: MatrixEncoding = {
    kind: "scaled",
    dtype: "F8_E4M3",
    scales: { suffix: "weight_scale_inv", per: "block" },
  };
  const gptq: MatrixEncoding = { kind: "gptq", groupColumns: 128, zeroOffset: 1 };
  const plain: MatrixEncoding = { kind: "plain", dtype: "BF16" };
  const check = (
    split: WeightSpec["split"],
    [rows, columns]: readonly [number, number],
    encoding: MatrixEncoding,
    size = 2,
  ) => cutProblem({ size }, { rows, columns, split, format: { encoding } });

  test("takes whole blocks, and anything where no scales are shared", () => {
    const problems = [
      check("rows", [256, 100], blocks),
      check("heads", [128, 100], blocks),
      check("columns", [100, 384], blocks),
      check("rows", [100, 100], plain),
      check("rows", [96, 128], gptq),
      // Not cut at all.
      check("none", [100, 100], blocks),
      check("experts", [100, 100], blocks),
      check("rows", [100, 100], blocks, 1),
    ];
    expect(problems).toEqual(problems.map(() => undefined));
  });

  test.each([
    ["rows", [96, 128], blocks, "96 of its 192 rows each would cut a block of 128x128"],
    ["heads", [192, 128], blocks, "192 of its 384 rows each would cut a block of 128x128"],
    ["columns", [128, 64], blocks, "64 of its 128 columns each would cut a block of 128x128"],
    ["rows", [100, 128], gptq, "100 of its 200 rows each would cut a word of 8 codes"],
  ] as const)("says why %s %j cannot be cut", (split, shape, encoding, problem) => {
    expect(check(split, shape, encoding)).toBe(problem);
  });
});
