/**
 * A vision tower alone: pictures of random pixels for it, and the rows that it makes of them.
 *
 * @module
 */
import { expect } from "vitest";
import type { LoadedModel } from "../../../src/engine/load/load.ts";
import { patchOrder, windowOrder } from "../../../src/images/dynamic_size.ts";
import { patchesOf } from "../../../src/images/patches.ts";
import type { Pixels } from "../../../src/images/pixels.ts";
import type { VisionFacts } from "../../../src/models/model.ts";
import { seeded } from "../devices/gpu.ts";

/** Of CLIP's, near enough: other numbers for each channel. */
export const SCALE = { mean: [0.5, 0.4, 0.3], deviation: [0.25, 0.3, 0.2] };

/** A picture of the size that the tower sees, or of any other. */
export function randomTile(
  facts: VisionFacts,
  [width, height]: readonly [number, number] = sizeOf(facts),
  seed = 11,
): Pixels {
  const random = seeded(seed);
  const rgb = Uint8Array.from({ length: 3 * width * height }, () => Math.floor(random() * 256));
  return { width, height, rgb };
}

function sizeOf(facts: VisionFacts): readonly [number, number] {
  switch (facts.kind) {
    case "llava":
      return [facts.side, facts.side];
    case "idefics3":
      return [facts.tileSide, facts.tileSide];
    case "deepseek_vl2":
      return [facts.tileSide, facts.tileSide];
    case "qwen2_5_vl":
      return [48, 36];
  }
}

/** Rows of a tile, row by row of the picture. */
export async function towerRows(
  { vision, definition }: LoadedModel,
  tile: Pixels,
  frames = 2,
): Promise<readonly Float32Array[]> {
  const facts = definition.vision!;
  const scale = { ...SCALE, rescale: 1 / 255 };
  const { patchSide } = facts;
  if (facts.kind !== "qwen2_5_vl") {
    return vision!.run(await patchesOf(tile, { scale, layout: { patchSide } }));
  }
  const side = patchSide * facts.merge;
  const units = { rows: tile.height / side, columns: tile.width / side };
  const order = windowOrder(units, facts.window).units;
  const patches = patchOrder(order, units.columns, facts.merge);
  const layout = { patchSide, frames, order: patches };
  const rows = await vision!.run(await patchesOf(tile, { scale, layout }));
  const out: Float32Array[] = [];
  order.forEach((unit, place) => {
    out[unit] = rows[place]!;
  });
  return out;
}

/** Of rows, as a part of the largest number in any. */
export function largestError(
  got: readonly ArrayLike<number>[],
  want: readonly Float64Array[],
): number {
  expect(got.map(({ length }) => length)).toEqual(want.map(({ length }) => length));
  let [most, largest] = [0, 0];
  want.forEach((row, i) => {
    row.forEach((value, k) => {
      largest = Math.max(largest, Math.abs(value));
      most = Math.max(most, Math.abs(value - got[i]![k]!));
    });
  });
  return most / largest;
}
