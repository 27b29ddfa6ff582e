import { expect, test } from "vitest";
import { rankSegments, segments } from "../../kernels/linear/weights/layout.ts";

const f32 = Math.fround;

/** In f32, neighbours first, over the next power of two of leaves. */
function tree(leaves: readonly number[]): number {
  let level = [...leaves];
  const count = 2 ** Math.ceil(Math.log2(level.length));
  while (level.length < count) level.push(0);
  while (level.length > 1) {
    level = Array.from({ length: level.length / 2 }, (_, i) =>
      f32(level[2 * i]! + level[2 * i + 1]!),
    );
  }
  return level[0]!;
}

/** What a linear of these blocks adds up in so many segments (dot_rows.wgsl). */
function linearSum(blocks: readonly number[], count: number): number {
  const first = (segment: number) => Math.floor((segment * blocks.length) / count);
  return tree(
    Array.from({ length: count }, (_, s) =>
      blocks.slice(first(s), first(s + 1)).reduce((sum, value) => f32(sum + value), 0),
    ),
  );
}

test("the sums of ranks join to the sum of one", () => {
  const accepted = new Map<number, number>();
  for (let count = 1; count <= 160; count++) {
    const blocks = Array.from({ length: count }, (_, i) => f32(Math.sin(12.9 * i + count)));
    const whole = linearSum(blocks, segments(count * 128));
    for (const ranks of [1, 2, 3, 4, 5, 6, 8, 16, 32]) {
      const cut = rankSegments(count * 128, ranks);
      if (cut === undefined) continue;
      accepted.set(ranks, (accepted.get(ranks) ?? 0) + 1);
      const { parts, segments: each } = cut;
      const length = count / ranks / parts;
      const sums = Array.from({ length: ranks * parts }, (_, i) =>
        linearSum(blocks.slice(i * length, (i + 1) * length), each),
      );
      expect(sums.length).toBeLessThanOrEqual(32);
      expect(tree(sums), `${count} blocks on ${ranks} ranks`).toBe(whole);
    }
  }
  expect(Object.fromEntries(accepted)).toEqual({
    1: 160,
    2: 16 + 64,
    3: 10,
    4: 8 + 32,
    5: 6,
    6: 5,
    8: 4 + 16,
    16: 2 + 8,
    32: 1 + 4,
  });
});

test("a power of two of segments is one sum for each rank", () => {
  expect(rankSegments(16384, 8)).toEqual({ parts: 1, segments: 4 });
  expect(rankSegments(18432, 16)).toEqual({ parts: 1, segments: 2 });
  expect(rankSegments(24 * 128, 2)).toEqual({ parts: 3, segments: 4 });
  expect(rankSegments(6 * 128, 3)).toEqual({ parts: 1, segments: 2 });
});

test("no rank has part of a block or of a segment", () => {
  expect(rankSegments(192, 2)).toBeUndefined();
  expect(rankSegments(3 * 128, 2)).toBeUndefined();
  // 36 blocks in 32 segments.
  expect(rankSegments(36 * 128, 3)).toBeUndefined();
});
