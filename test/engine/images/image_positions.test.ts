import { describe, expect, test } from "vitest";
import { ContentIds } from "../../../src/cache/content_id.ts";
import { ImageWalk, placeImages } from "../../../src/engine/images/image_positions.ts";
import { PromptEmbeddings } from "../../../src/engine/prompt_embeddings.ts";
import { placesOf, writePlace } from "../../../src/layers/attention/parted_rope.ts";
import type { RopePlaces } from "../../../src/layers/batch.ts";
import { hasSharedData, sharedJson, skipNote } from "../../text/shared_data.ts";

interface Case {
  readonly name: string;
  readonly input_ids: readonly number[];
  readonly image_runs: readonly (readonly [start: number, count: number])[];
  readonly image_grid_thw: readonly (readonly [number, number, number])[];
  readonly position_ids: readonly (readonly number[])[];
  readonly rope_delta: number;
}

const cases = hasSharedData
  ? sharedJson<{ cases: readonly Case[] }>("vision/golden/mini-qwen2.5-vl.w.json").cases
  : [];

const allOf = (places: RopePlaces, count: number) => {
  const all = Array.from({ length: count }, (_, position) => {
    const into = new Uint32Array(3);
    writePlace(places, position, into);
    return Array.from(into);
  });
  return [0, 1, 2].map((part) => all.map((place) => place[part]));
};

describe.skipIf(!hasSharedData)(`positions of prompts with images${skipNote}`, () => {
  test.each(cases.map((one) => [one.name, one] as const))("%s", (_, one) => {
    const grids = one.image_grid_thw.map(([, rows, columns]) => ({
      rows: rows / 2,
      columns: columns / 2,
    }));
    const starts = one.image_runs.map(([start]) => start);
    // As ranks are told of them.
    const places = structuredClone(placeImages(starts, grids));
    const { length } = one.input_ids;
    expect(allOf(places, length)).toEqual(one.position_ids);
    // What is sent for rows of a step is enough for them.
    for (let first = 0; first < length; first += 5) {
      for (const end of [first + 1, Math.min(first + 7, length)]) {
        const part = placesOf(places, first, end);
        const into = new Uint32Array(3);
        for (let position = first; position < end; position++) {
          writePlace(part, position, into);
          expect(Array.from(into)).toEqual(one.position_ids.map((axis) => axis[position]));
        }
      }
    }
    expect(placesOf(places, length + 7, length + 8).length).toBeLessThanOrEqual(1);
    const behind = new Uint32Array(3);
    writePlace(places, length + 7, behind);
    expect(Array.from(behind)).toEqual(new Array(3).fill(length + 7 + one.rope_delta));
  });
});

test("rows are counted image by image", () => {
  const walk = new ImageWalk([
    { rows: 1, columns: 2 },
    { rows: 2, columns: 1 },
  ]);
  expect([walk.next(3), walk.next(4), walk.next(5), walk.next(6)]).toEqual([
    [1, 2, 0],
    [1, 2, 1],
    [2, 1, 0],
    [2, 1, 1],
  ]);
  expect(walk.starts).toEqual([3, 5]);
  expect(new ImageWalk([]).next(3)).toBeUndefined();
});

test("pictures of one colour are told apart by how their rows lie", async () => {
  const rows = Array.from({ length: 6 }, () => Float32Array.of(1, 2, 3));
  const contentIds = new ContentIds();
  const idsOf = async (grid: { rows: number; columns: number } | undefined) => {
    const images = [{ name: "one", rows }];
    const given = { images, grids: [grid], placeholder: 9, contentIds };
    return (await PromptEmbeddings.place([4, 9, 9, 9, 9, 9, 9, 5], given)).ids;
  };
  const [wide, high, flat] = [
    await idsOf({ rows: 2, columns: 3 }),
    await idsOf({ rows: 3, columns: 2 }),
    await idsOf(undefined),
  ];
  expect(new Set([...wide, ...high]).size).toBe(2 + 12);
  expect(new Set(flat).size).toBe(3);
  expect(await idsOf({ rows: 2, columns: 3 })).toEqual(wide);
});
