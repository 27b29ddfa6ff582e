/** How many rows of images requests hold together. */
import { expect, test } from "vitest";
import type { ImageFeatures } from "../../../src/engine/images/feature_cache.ts";
import { HeldRows } from "../../../src/engine/images/held_rows.ts";

const image = (bytes: number): ImageFeatures => {
  return { name: "image", rows: [new Float32Array(bytes / 4)] };
};

test("what is beyond the limit is refused until others have ended", () => {
  const held = new HeldRows(100);
  const release = held.hold([image(60)]);
  expect(() => held.hold([image(60)])).toThrow(
    "Cannot reserve memory for rows of images: other requests hold 60 of 100 bytes, until they end",
  );
  held.hold([image(40)])();
  release();
  held.hold([image(100)]);
});

test("one request may have more where no other has any", () => {
  const held = new HeldRows(100);
  held.hold([image(400)])();
  held.hold([image(400)]);
});

test("rows of one image are there once, and as long as any request holds them", () => {
  const held = new HeldRows(100);
  const shared = image(80);
  const releases = [held.hold([shared]), held.hold([shared, shared])];
  releases[0]!();
  expect(() => held.hold([image(40)])).toThrow("hold 80 of 100 bytes");
  releases[1]!();
  held.hold([image(40)]);
});
